"""A stand-in for torch's package, of which frames are not the program's."""
