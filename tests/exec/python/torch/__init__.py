"""A stand-in for torch's package; its frames are not the program's."""
