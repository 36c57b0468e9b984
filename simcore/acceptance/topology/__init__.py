"""Draft trees: what they are worth, which one to verify, how engines write them. Plain numpy."""
