"""Class ratios of unlabelled tables, from bags of rows whose label proportions are known.

After Iyer, Nath & Sarawagi 2016, corrected (docs/errata.md) and completed. `estimator.ClassRatio`
is what people use; it holds one fitted method: `mean_embedding` (the paper's, by mean embeddings
and their distance), `bag_likelihood` (by a classifier of the bags, and its `calibration`) or
`moment_inversion` (by class means of that classifier's posteriors). All read rows once, through
`collecting`; `suffice.models.simplex` holds the two small problems that they solve for the ratios.

They assume label shift, which `label_shift` tests. Where the bags contradict it, `natural_range`
sets a `stable_classifier` beside them.
"""
