"""Applications for real workers. What their handlers do is witnessed outside the library."""
