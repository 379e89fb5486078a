"""Class ratios of unlabelled tables, from bags of rows whose label proportions are known.

After Iyer, Nath & Sarawagi 2016, corrected (docs/errata.md) and completed. `estimator.ClassRatio`
is what people use; it holds one fitted method: `embedding` (the paper's, by mean embeddings and
their distance) or one of `posteriors` (by a classifier of the bags: its likelihood, or class means
of its posteriors). All read rows once; `suffice.models.simplex` holds the two small problems that
they solve for the ratios. They assume label shift, which `natural` tests. Where the bags contradict
it, `natural` sets a stable classifier beside them.
"""
