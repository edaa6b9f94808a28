"""See store.py."""
