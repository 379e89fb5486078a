"""The demo: a network of clinics, five releases, and what was learnt from them."""
