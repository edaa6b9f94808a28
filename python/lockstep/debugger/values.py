"""Values of a rank as bounded text, and hashes of tensors that ranks compare."""

import hashlib
import reprlib
import sys

SHOWN = 6  # elements of a tensor
PARTS = 1024  # hashes of a tensor that one answer has


class _Short(reprlib.Repr):
    def __init__(self, longest):
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple, self.maxset = 3, 6, 8, 8, 8
        self.maxstring = self.maxother = self.maxlong = longest

    def repr1(self, x, level):
        if is_array(x):
            return array(x)
        return super().repr1(x, level)


def is_array(value):
    """Whether it is a torch tensor or a NumPy array; does not import either module."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(value, getattr(torch, "Tensor", ()))) or \
        (numpy is not None and isinstance(value, getattr(numpy, "ndarray", ())))


def local(value):
    """This rank's part of a DTensor, which needs no call of another rank."""
    value = value.to_local() if hasattr(value, "to_local") else value
    return value.detach() if hasattr(value, "detach") else value


def _flat(value):
    value = local(value)
    return value.reshape(-1) if value.ndim != 1 else value


def array(value):
    """Its type, its shape and its first elements."""
    try:
        placed = f" {list(map(str, value.placements))} of {list(value.shape)}" if hasattr(value, "placements") else ""
        of, flat = local(value), _flat(value)
        dtype, shape = str(of.dtype).replace("torch.", ""), list(of.shape)
        first = ", ".join(f"{one:.6g}" if isinstance(one, float) else str(one) for one in flat[:SHOWN].tolist())
        more = ", ..." if flat.shape[0] > SHOWN else ""
        return f"{dtype} {shape}{placed}: {first}{more}"
    except Exception as error:
        return f"{type(value).__name__}, whose elements cannot be read ({type(error).__name__})"


def shown(value, longest=300):
    """One line of at most this many characters; never raises."""
    try:
        text = array(value) if is_array(value) else _Short(longest).repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    text = text.replace("\n", " ")
    return text if len(text) <= longest else text[:longest - 3] + "..."


def names_of(frame):
    """The frame's variables, the program's first, without modules and functions of modules."""
    found = []
    for name, value in list(frame.f_locals.items()):
        plain = not callable(value) and type(value).__name__ != "module" and not (name.startswith("__") and name.endswith("__"))
        if plain or frame.f_locals is not frame.f_globals:
            found.append((name, value))
    return found


def children(value, most=100):
    """The parts of a value that an editor unfolds: (name, value)."""
    try:
        if isinstance(value, dict):
            return [(shown(key, 60), one) for key, one in list(value.items())[:most]]
        if isinstance(value, (list, tuple)):
            return [(f"[{at}]", one) for at, one in enumerate(value[:most])]
        if isinstance(value, (set, frozenset)):
            return [(f"[{at}]", one) for at, one in enumerate(list(value)[:most])]
        if is_array(value) or isinstance(value, (str, bytes, int, float, complex, bool, type(None))):
            return []
        own = dict(getattr(value, "__dict__", {}))
        for inner in ("_parameters", "_buffers", "_modules"):  # of torch's modules
            own.update(own.pop(inner, None) or {})
        return list(own.items())[:most]
    except Exception:
        return []


# ---- Parts of a tensor --------------------------------------------------------------------------
def _bytes(flat):
    if hasattr(flat, "cpu"):
        torch = sys.modules["torch"]
        flat = flat.cpu().contiguous()
        return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return flat.tobytes()


def as_array(value):
    """Converts numbers and lists of numbers, which are compared like tensors; None: any other value."""
    if is_array(value):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, (int, float, complex, bool, list, tuple)):
        try:
            return torch.as_tensor(value)
        except Exception:
            return None
    return None


def part(value, low, high, step):
    """Hashes of the elements low to high - 1, in parts of `step`; of other values, of their text."""
    found = as_array(value)
    if found is None:
        return {"text": shown(value, 2000)}
    flat = _flat(found)
    count = int(flat.shape[0])
    high = min(high, count) if high >= 0 else count
    step = step or max(1, -(-(high - low) // PARTS))
    hashes = [hashlib.blake2b(_bytes(flat[at:min(at + step, high)]), digest_size=8).hexdigest()
              for at in range(low, high, step)]
    values = [shown(one, 40) for one in flat[low:high].tolist()] if step == 1 and high - low <= 16 else None
    return {"dtype": str(found.dtype).replace("torch.", ""), "shape": list(local(found).shape), "count": count,
            "step": step, "hashes": hashes, "values": values}


# ---- Post-mortems -------------------------------------------------------------------------------
class Room:
    """The remaining room of a post-mortem in characters and elements."""

    def __init__(self, left=1 << 20):
        self.left = left

    def take(self, count):
        self.left -= count
        return self.left > 0


def kept(value, room, depth=2, elements=256):
    """A value in a post-mortem: its text, the elements of a small tensor, and the parts of an object to a depth."""
    entry = {"shown": shown(value, 400) if room.take(100) else "..."}
    if is_array(value):
        try:
            flat = _flat(value)
            entry["shape"], entry["dtype"] = list(local(value).shape), str(value.dtype).replace("torch.", "")
            first = flat[:elements].tolist() if room.take(10 * elements) else []
            entry["elements"] = [one if not isinstance(one, float) or one - one == 0 else str(one) for one in first]
        except Exception:
            pass
    elif isinstance(value, (bool, int, float, str, type(None))) and len(str(value)) <= 400:
        if not isinstance(value, float) or value - value == 0:  # JSON has no NaN
            entry["value"] = value
    elif depth > 0 and room.left > 0:
        found = {str(name).strip("[]'\""): kept(one, room, depth - 1) for name, one in children(value, 50)}
        if found:
            entry["parts"] = found
    return entry
