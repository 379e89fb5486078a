"""What the five papers state and no default takes, and the reproductions of their figures."""
