"""What travels: the release, its file, its kinds, its signature, and how several become one."""
