"""Pretty printers for the public types. They read memory and call nothing."""
import gdb
import gdb.printing

from . import catches, memory, model, tensors, values

HEAD = 8  # elements of a shard


def address_of(value):
    return int(value.address) if value.address is not None else 0


class Printer:
    """Shows text(); an invalid value is shown as gdb would, with the reason."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        try:
            return self.text()
        except Exception as error:
            return f"<{error}>"


class Pointer(Printer):
    """A pointer to an opaque type: the address and the object."""
    inner = None

    def to_string(self):
        if int(self.value) == 0:
            return "NULL"
        try:
            return f"{int(self.value):#x} {self.of(int(self.value))}"
        except Exception as error:
            return f"{int(self.value):#x} <{error}>"


def number_of(value):
    return int(value)


class Enum(Printer):
    prefix = "LS_"

    def text(self):
        type_ = self.value.type.strip_typedefs()
        number = int(self.value)
        for field in type_.fields():
            if field.enumval == number:
                return field.name[len(self.prefix):].lower()
        return f"{number} (no {self.value.type})"


class Status(Enum):
    def text(self):
        for field in self.value.type.strip_typedefs().fields():
            if field.enumval == int(self.value):
                return field.name
        return f"{int(self.value)} (no ls_status)"


class FindingId(Printer):
    def text(self):
        return catches.finding_name(int(self.value))


def _enum(prefix):
    return type("Prefixed", (Enum,), {"prefix": prefix})


def dims(value, ndim, most):
    return "[" + ", ".join(str(int(value[i])) for i in range(max(0, min(int(ndim), most)))) + "]"


class Shape(Printer):
    def text(self):
        return dims(self.value["dim"], self.value["ndim"], 8)


class Block(Printer):
    def text(self):
        ndim = max(0, min(8, int(self.value["offset"]["ndim"])))
        pairs = ((int(self.value["offset"]["dim"][i]), int(self.value["size"]["dim"][i]))
                 for i in range(ndim))
        return "[" + ", ".join(f"{o}:{o + s}" for o, s in pairs) + "]"


class Mesh(Printer):
    def text(self):
        parts = []
        for i in range(max(0, min(6, int(self.value["ndim"])))):
            name = self.value["name"][i].string()
            parts.append((name + "=" if name else "") + str(int(self.value["dim"][i])))
        return "mesh [" + ", ".join(parts) + "]"


def placement(value):
    kind = int(value["kind"])
    if kind == 1:
        return f"S({int(value['dim'])}{', sizes' if int(value['sizes']) else ''})"
    if kind == 2:
        return f"P({memory.enum_name('ls_op', 'LS_', int(value['op']))})"
    return "R"


class Placement(Printer):
    def text(self):
        return placement(self.value)


class Placements(Printer):
    def text(self):
        count = max(0, min(6, int(self.value["count"])))
        return "(" + ", ".join(placement(self.value["at"][i]) for i in range(count)) + ")"


class LocalTensor(Printer):
    """Placement, then each shard's block and head."""

    def text(self):
        return tensors.Tensor(address_of(self.value)).summary()

    def children(self):
        try:
            tensor = tensors.Tensor(address_of(self.value))
            shards = tensor.shards()
        except Exception:
            return
        most = min(HEAD, values.elements_max())
        for i, rank in enumerate(tensor.ranks):
            for shard in shards[tensor.first[i]:tensor.first[i + 1]]:
                name = f"rank {rank} {tensors.block_text(shard)}"
                try:
                    yield name, "{" + tensor.head(shard, most) + "}"
                except Exception as error:
                    yield name, f"<{error}>"


class Shard(Printer):
    def text(self):
        found = memory.record("ls_shard", address_of(self.value))
        return f"{tensors.block_text(found)}, {found['count']} elements at {found['data']:#x}"


def call_text(found, prefix=""):
    calls = model.Calls()
    return (f"{calls.describe(found, prefix)} on {calls.comm_name(found[prefix + 'comm'])} "
            f"(rank {found[prefix + 'rank']}, call {found[prefix + 'seq']}, "
            f"{calls.where(found, prefix)})")


def comm_text(address):
    comm = model.Comm(address)
    return f"{comm.name}: {comm.size} ranks, {memory.rank_list(sorted(comm.ranks))}"


def rank_text(address):
    found = memory.record("ls_rank", address)
    if found["state"] not in memory.enum("ls_rank_state", "LS_RANK_"):
        raise memory.Failure("no rank")
    state = memory.enum_name("ls_rank_state", "LS_RANK_", found["state"])
    count = found["call_count"]
    out = f"rank {found['id']}, {state}, {count} call{'' if count == 1 else 's'}"
    name = memory.static_text(found["file"])
    return out + (f", last at {model.short_file(name)}:{found['line']}" if name else "")


def rank_comm_text(address):
    found = memory.record("ls_rank_comm", address)
    shared = memory.record("ls_shared_comm", found["shared"])
    destroyed = ", destroyed" if found["destroyed"] else ""
    return f"{comm_text(shared['comm'])}; member {found['member']}{destroyed}"


def request_text(address):
    found = memory.record("ls_request", address)
    state = memory.enum_name("ls_request_state", "LS_REQUEST_", found["state"])
    return f"{call_text(found, 'call.')}, {state}"


def world_text(address):
    found = memory.record("ls_world", address)
    mesh = dims(memory_mesh(found), found["mesh.ndim"], 6)
    return f"world of {found['size']} ranks, mesh {mesh}, {found['held_count']} held, seed {found['seed']}"


def memory_mesh(found):
    return found.integers("mesh.dim", 4)


def rank_int_text(address):
    found = memory.record("ls_rank_int", address)
    count, most = found["count"], values.elements_max()
    numbers = memory.integers(found.at("value") if "value" in found.layout.fields
                              else address + found.layout.size, min(count, most), 8)
    return "{" + ", ".join(map(str, numbers)) + (", ..." if count > most else "") + "}"


def finding_text(address):
    found = memory.record("ls_finding", address)
    ranks = memory.integers(found["ranks"], found["rank_count"], 4)
    return (f"{catches.finding_name(found['id'])}, ranks {memory.rank_list(ranks)}, "
            f"{model.short_file(memory.text(found['where']))}\n{memory.text(found['text']).rstrip()}")


def finding_short(address):
    return finding_text(address).split("\n")[0]


def run_text(address):
    found = memory.record("ls_spmd", address)
    return f"run of {found['rank_count']} ranks, status {found['status']}, {found['calls']} calls"


def backend_text(address):
    found = memory.record("ls_backend", address)
    ops = gdb.Value(found["ops"]).cast(gdb.lookup_type("ls_backend_ops").pointer())
    return f"backend {ops['name'].string()}, {found['comm_next_id']} communicators made"


def call_at(address):
    return call_text(memory.record("ls_call", address))


class Error(Printer):
    def text(self):
        rank = int(self.value["rank"])
        who = f" (rank {rank})" if rank >= 0 else ""
        return f"{int(self.value['code'])}{who}: {self.value['text'].string()}"


class Fault(Printer):
    def text(self):
        type_ = memory.enum_name("ls_fault_type", "LS_FAULT_", int(self.value["type"]))
        return (f"{type_} of rank {int(self.value['rank'])} at call {int(self.value['call'])}, "
                f"amount {int(self.value['amount'])}")


_STRUCTS = {"ls_shape": Shape, "ls_block": Block, "ls_mesh": Mesh, "ls_placement": Placement,
            "ls_placements": Placements, "ls_local_tensor": LocalTensor, "ls_shard": Shard,
            "ls_error": Error, "ls_fault": Fault}
_ENUMS = {"ls_dtype": Enum, "ls_op": Enum, "ls_kind": Enum, "ls_status": Status,
          "ls_finding_id": FindingId, "ls_placement_kind": _enum("LS_PLACE_"),
          "ls_rank_state": _enum("LS_RANK_"), "ls_request_state": _enum("LS_REQUEST_"),
          "ls_schedule_kind": _enum("LS_SCHEDULE_"), "ls_fault_type": _enum("LS_FAULT_"),
          "ls_class": _enum("LS_CLASS_")}
# Types whose text comes from their address: shown by value and through pointers.
_ADDRESSED = {"ls_call": call_at, "ls_comm": comm_text, "ls_rank": rank_text,
              "ls_rank_comm": rank_comm_text, "ls_request": request_text, "ls_world": world_text,
              "ls_rank_int": rank_int_text, "ls_finding": finding_text, "ls_spmd": run_text,
              "ls_backend": backend_text}


def _by_value(of):
    return type("ByValue", (Printer,), {"text": lambda self: of(address_of(self.value))})


def _by_pointer(of):
    return type("ByPointer", (Pointer,), {"of": staticmethod(of)})


_BY_VALUE = {name: _by_value(of) for name, of in _ADDRESSED.items()}
_BY_POINTER = {name: _by_pointer(of) for name, of in _ADDRESSED.items()}
_BY_POINTER["ls_finding"] = _by_pointer(finding_short)
_BY_POINTER["ls_local_tensor"] = _by_pointer(lambda at: tensors.Tensor(at).summary())


class Lookup(gdb.printing.PrettyPrinter):
    """Finds the printer of a value by its type's name."""

    def __init__(self):
        super().__init__("lockstep")

    def __call__(self, value):
        type_ = value.type.strip_typedefs()
        if type_.code == gdb.TYPE_CODE_PTR:
            target = type_.target().unqualified().strip_typedefs()
            if target.code != gdb.TYPE_CODE_STRUCT or target.tag not in _BY_POINTER:
                return None
            return _BY_POINTER[target.tag](value)
        name = type_.tag or value.type.unqualified().name
        if type_.code == gdb.TYPE_CODE_ENUM:
            found = _ENUMS.get(name)
        else:
            found = _STRUCTS.get(name)
            # To address one of gdb's own strings, gdb would call the program's malloc.
            if found is None and name in _BY_VALUE and value.address is not None:
                found = _BY_VALUE[name]
        return found(value) if found else None


def register():
    gdb.printing.register_pretty_printer(None, Lookup(), replace=True)
