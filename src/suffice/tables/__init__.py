"""Tables and what is done to them in public: readers, columns, encoding, the pipeline, row hashes.

Nothing here knows about privacy. What a pipeline was fitted on is for its caller to decide.
"""
