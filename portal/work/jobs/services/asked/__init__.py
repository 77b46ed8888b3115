"""Changes of what a waiting job asks for."""
