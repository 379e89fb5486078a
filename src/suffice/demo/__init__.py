"""The demo: an invented network of clinics, and its releases told as a story."""
