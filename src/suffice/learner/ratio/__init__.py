"""Class ratios of unlabelled tables, from bags of rows whose label proportions are known.

After Iyer, Nath & Sarawagi 2016, corrected (docs/errata.md) and completed. `estimator.ClassRatio`
is what people use; it holds one of two fitted methods: `mean_embedding` (the paper's, by mean
embeddings and their distance) or `bag_likelihood` (by a classifier of the bags, and its
`calibration`). Both read rows once, through `collecting`; `suffice.models.simplex` holds the two
small problems that they solve for the ratios.
"""
