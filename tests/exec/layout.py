"""Python's constants of the client equal the library's, and a wrong one is an error: layout.py LIBRARY SOURCE"""
import ctypes
import importlib.util
import sys


def fails(client, library):
    try:
        client.check_layout(library)
    except client.Error as error:
        assert "different versions" in str(error)
        return True
    return False


def main():
    library = ctypes.CDLL(sys.argv[1])
    spec = importlib.util.spec_from_file_location("torch_client",
                                                  f"{sys.argv[2]}/python/lockstep/torch_client.py")
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    assert not fails(client, library)
    for name in ("NONE", "NO_STREAM", "ID_BYTES", "PIECE_BYTES", "SENDER"):
        kept = getattr(client, name)
        setattr(client, name, kept + 1)
        assert fails(client, library), name
        setattr(client, name, kept)
    for name in ("Region", "Call"):
        kept = getattr(client, name)
        for i in range(len(kept._fields_) - 1):
            fields = kept._fields_[:i] + [("more", ctypes.c_uint64)] + kept._fields_[i:]
            setattr(client, name, type(name, (ctypes.Structure,), {"_fields_": fields}))
            assert fails(client, library), (name, i)
        setattr(client, name, kept)
    assert not fails(client, library)
    assert fails(client, ctypes.CDLL(None))  # an older one lacks it


if __name__ == "__main__":
    main()
