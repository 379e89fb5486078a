"""Messages between owners, learners and parties: proposals and grants, as files or by Flower."""
