// Derived datatypes: their sizes and bounds, their construction arguments, and their bytes in
// order, packed and unpacked, sent directly and as MPI_PACKED.
#include "compared.h"

#define MIDDLE 512

typedef struct named {
    const char *name;
    MPI_Datatype type;
} named;

#define LIST(T, ...) ((const T[]){__VA_ARGS__})
#define INTS(...)    LIST(int, __VA_ARGS__)
#define BYTES(...)   LIST(MPI_Aint, __VA_ARGS__)
#define TYPES(...)   LIST(MPI_Datatype, __VA_ARGS__)
#define MAKE(constructor, ...)                                                                     \
    do {                                                                                           \
        MPI_Type_##constructor(__VA_ARGS__, &out[n].type);                                         \
        out[n++].name = #constructor " " #__VA_ARGS__;                                             \
    } while (0)

// Fills in the available types; out[0] to out[n - 1] exist already.
static int make_plain(named *out) {
    int n = 0;
    MAKE(contiguous, 3, MPI_INT);
    MAKE(contiguous, 0, MPI_INT);
    MAKE(contiguous, 2, MPI_DOUBLE_INT);
    MAKE(contiguous, 2, MPI_SHORT_INT);
    MAKE(vector, 3, 2, 4, MPI_INT);
    MAKE(vector, 2, 1, -3, MPI_SHORT);
    MAKE(vector, 0, 2, 1, MPI_INT);
    MAKE(vector, 2, 3, 3, MPI_CHAR);
    MAKE(create_hvector, 3, 2, 20, MPI_INT);
    MAKE(create_hvector, 2, 2, -20, MPI_INT);
    MAKE(indexed, 4, INTS(2, 0, 1, 3), INTS(5, 1, -2, 9), MPI_INT);
    MAKE(indexed, 2, INTS(2, 1), INTS(0, 2), MPI_DOUBLE);
    MAKE(create_hindexed, 4, INTS(2, 0, 1, 3), BYTES(24, 0, -16, 64), MPI_DOUBLE);
    MAKE(create_indexed_block, 3, 2, INTS(5, 1, -2), MPI_SHORT);
    MAKE(create_hindexed_block, 3, 1, BYTES(48, 8, -16), MPI_LONG);
    MAKE(create_struct, 3, INTS(1, 2, 1), BYTES(0, 8, 24), TYPES(MPI_CHAR, MPI_DOUBLE, MPI_SHORT));
    MAKE(create_struct, 2, INTS(1, 1), BYTES(20, 0), TYPES(MPI_CHAR, MPI_C_DOUBLE_COMPLEX));
    MAKE(create_struct, 2, INTS(2, 1), BYTES(-6, 4), TYPES(MPI_SHORT, MPI_INT64_T));
    MAKE(create_struct, 2, INTS(0, 3), BYTES(40, 4), TYPES(MPI_INT, MPI_SHORT));
    MAKE(create_struct, 0, INTS(0), BYTES(0), TYPES(MPI_INT));
    MAKE(create_resized, MPI_INT, -4, 12);
    MAKE(create_resized, MPI_INT, 0, -8);
    MAKE(create_resized, MPI_INT, 0, 6);
    MAKE(create_subarray, 1, INTS(7), INTS(3), INTS(2), MPI_ORDER_C, MPI_SHORT);
    MAKE(create_subarray, 2, INTS(4, 5), INTS(2, 3), INTS(1, 2), MPI_ORDER_C, MPI_INT);
    MAKE(create_subarray, 2, INTS(4, 5), INTS(2, 3), INTS(1, 2), MPI_ORDER_FORTRAN, MPI_INT);
    MAKE(create_subarray, 3, INTS(3, 2, 5), INTS(2, 2, 2), INTS(1, 0, 2), MPI_ORDER_C, MPI_CHAR);
    MAKE(create_subarray, 3, INTS(3, 2, 5), INTS(2, 1, 3), INTS(0, 1, 1), MPI_ORDER_FORTRAN,
         MPI_SHORT);
    MAKE(dup, MPI_FLOAT);
    return n;
}

static int make_arrays(named *out, int n, int rank) {
    enum {
        NONE = MPI_DISTRIBUTE_NONE,
        BLOCK = MPI_DISTRIBUTE_BLOCK,
        ANY = MPI_DISTRIBUTE_DFLT_DARG
    };
    enum { CYCLIC = MPI_DISTRIBUTE_CYCLIC };
    MAKE(create_darray, 5, rank, 1, INTS(11), INTS(BLOCK), INTS(ANY), INTS(5), MPI_ORDER_C,
         MPI_INT);
    MAKE(create_darray, 5, rank, 1, INTS(13), INTS(CYCLIC), INTS(ANY), INTS(5), MPI_ORDER_C,
         MPI_SHORT);
    MAKE(create_darray, 5, rank, 1, INTS(23), INTS(CYCLIC), INTS(2), INTS(5), MPI_ORDER_C,
         MPI_CHAR);
    MAKE(create_darray, 6, rank, 2, INTS(5, 7), INTS(BLOCK, CYCLIC), INTS(3, 2), INTS(2, 3),
         MPI_ORDER_C, MPI_INT);
    MAKE(create_darray, 6, rank, 2, INTS(5, 7), INTS(CYCLIC, BLOCK), INTS(1, ANY), INTS(3, 2),
         MPI_ORDER_FORTRAN, MPI_CHAR);
    MAKE(create_darray, 6, rank, 3, INTS(2, 3, 6), INTS(NONE, BLOCK, CYCLIC), INTS(ANY, ANY, 2),
         INTS(1, 3, 2), MPI_ORDER_C, MPI_SHORT);
    return n;
}

// Number of available types.
static int make_nested(named *out, int n) {
    const MPI_Datatype vector = out[4].type, backward = out[5].type, indexed = out[10].type,
                       record = out[15].type, spaced = out[20].type, negative = out[21].type,
                       odd = out[22].type, part = out[24].type;
    MAKE(contiguous, 2, vector);
    MAKE(vector, 2, 2, 3, backward);
    MAKE(create_hvector, 2, 1, 60, indexed);
    MAKE(indexed, 2, INTS(1, 2), INTS(3, 0), record);
    MAKE(create_struct, 3, INTS(1, 2, 1), BYTES(0, 100, 60), TYPES(vector, spaced, record));
    MAKE(contiguous, 3, negative);
    MAKE(vector, 2, 1, 2, odd);
    MAKE(create_struct, 1, INTS(2), BYTES(0), TYPES(odd));
    MAKE(vector, 2, 2, -3, spaced);
    MAKE(create_resized, indexed, 4, 60);
    MAKE(create_resized, part, -8, 100);
    MAKE(dup, indexed);
    MAKE(create_indexed_block, 2, 2, INTS(4, 1), spaced);
    MAKE(create_subarray, 2, INTS(3, 2), INTS(2, 1), INTS(1, 1), MPI_ORDER_C, spaced);
    return n;
}

static void print_bounds(MPI_Datatype type) {
    int size;
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Count wide[5];
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    printf("  size %d, from %ld, %ld long, in truth from %ld, %ld long\n", size, (long)lb,
           (long)extent, (long)true_lb, (long)true_extent);
    MPI_Type_size_x(type, &wide[0]);
    MPI_Type_get_extent_x(type, &wide[1], &wide[2]);
    MPI_Type_get_true_extent_x(type, &wide[3], &wide[4]);
    for (int i = 0; i < LAST(wide); i++) {
        printf(" %lld", (long long)wide[i]);
    }
    printf("\n");
}

// The values of constants are the library's own.
static void print_constant(int value) {
    static const struct {
        int value;
        const char *name;
    } names[] = {
#define NAMED(constant)  {constant, #constant}
#define COMBINER(suffix) NAMED(MPI_COMBINER_##suffix)
        COMBINER(NAMED),          COMBINER(DUP),     COMBINER(CONTIGUOUS), COMBINER(VECTOR),
        COMBINER(HVECTOR),        COMBINER(INDEXED), COMBINER(HINDEXED),   COMBINER(INDEXED_BLOCK),
        COMBINER(HINDEXED_BLOCK), COMBINER(STRUCT),  COMBINER(SUBARRAY),   COMBINER(DARRAY),
        COMBINER(RESIZED),
    };
    for (int i = 0; i < LAST(names); i++) {
        if (names[i].value == value) {
            printf(" %s", names[i].name);
        }
    }
}

static void print_contents(MPI_Datatype type) {
    int counts[3], combiner, ints[64], length;
    MPI_Aint bytes[16];
    MPI_Datatype types[16];
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &combiner);
    printf("  made by");
    print_constant(combiner);
    MPI_Type_get_contents(type, counts[0], counts[1], counts[2], ints, bytes, types);
    for (int i = 0; i < counts[0]; i++) {
        ints[i] == MPI_ORDER_C         ? printf(" C")
        : ints[i] == MPI_ORDER_FORTRAN ? printf(" Fortran")
                                       : printf(" %d", ints[i]);
    }
    for (int i = 0; i < counts[1]; i++) {
        printf(" %ld bytes", (long)bytes[i]);
    }
    for (int i = 0; i < counts[2]; i++) {
        MPI_Type_get_envelope(types[i], &counts[0], &counts[1], &length, &combiner);
        print_constant(combiner);
        MPI_Type_get_name(types[i], name, &length);
        printf(" %s %d", name, length);
        if (combiner != MPI_COMBINER_NAMED) {
            MPI_Type_free(&types[i]);
        }
    }
    printf("\n");
}

// Consecutive bytes as ranges.
static void print_ranges(const char *what, const unsigned char *at, int count) {
    printf("  %s:", what);
    for (int i = 0, first = 0; i < count; i++) {
        if (i == count - 1 || at[i + 1] != (unsigned char)(at[i] + 1)) {
            printf(" %d+%d", at[first], i + 1 - first);
            first = i + 1;
        }
    }
    printf("\n");
}

static unsigned char from[2 * MIDDLE], to[2 * MIDDLE], packed[MIDDLE];

static void clear(void) {
    for (int i = 0; i < 2 * MIDDLE; i++) {
        from[i] = (unsigned char)i;
        to[i] = (unsigned char)~i;
    }
}

// The positions written since the last clear, and "!" where the value differs from
// `from`.
static void print_written(const char *what) {
    printf("  %s:", what);
    for (int i = 0; i < 2 * MIDDLE; i++) {
        int length = 0, same = 1;
        for (; i + length < 2 * MIDDLE && to[i + length] != (unsigned char)~(i + length);
             length++) {
            same = same && to[i + length] == from[i + length];
        }
        if (length > 0) {
            printf(" %d+%d%s", i - MIDDLE, length, same ? "" : "!");
            i += length - 1;
        }
    }
    printf("\n");
}

// Whether a byte of `count` elements occurs twice in the type: such a type can only be sent.
static int overlaps(MPI_Datatype type, int count) {
    int room, size, position = 0, back = 0, written = 0;
    MPI_Type_size(type, &size);
    MPI_Pack_size(count, type, WORLD, &room);
    memset(from, 1, sizeof from);
    memset(to, 0, sizeof to);
    MPI_Pack(from + MIDDLE, count, type, packed, room, &position, WORLD);
    MPI_Unpack(packed, position, &back, to + MIDDLE, count, type, WORLD);
    for (int i = 0; i < 2 * MIDDLE; i++) {
        written += to[i];
    }
    return written != count * size;
}

static void print_bytes(MPI_Datatype type) {
    int size, room, position = 3, back = 3, got, elements;
    MPI_Status status;
    MPI_Type_size(type, &size);
    if (size == 0) {
        return;  // MPICH 4.0.2 divides by it
    }
    clear();
    MPI_Pack_size(2, type, WORLD, &room);
    MPI_Pack(from + MIDDLE, 2, type, packed, room + 3, &position, WORLD);
    MPI_Unpack(packed, position, &back, to + MIDDLE, 2, type, WORLD);
    printf("  %d packed to %d, unpacked to %d\n", room, position, back);
    print_ranges("packed", packed + 3, position - 3);
    print_written("unpacked");

    clear();
    memset(packed, 0, sizeof packed);
    MPI_Sendrecv(from + MIDDLE, 2, type, 0, 1, packed, room, MPI_PACKED, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    print_ranges("sent", packed, room);
    if (overlaps(type, 3)) {
        printf("  nothing can be received\n");
        return;
    }
    clear();
    MPI_Sendrecv(from + MIDDLE, 2, type, 0, 1, packed, room, MPI_PACKED, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(packed, room, MPI_PACKED, 0, 1, to + MIDDLE, 3, type, 0, 1, MPI_COMM_SELF,
                 &status);
    print_written("received");
    MPI_Get_count(&status, type, &got);
    MPI_Get_elements(&status, type, &elements);
    printf("  %d of them, %d elements\n", got, elements);

    clear();
    MPI_Sendrecv(from + MIDDLE, 2, type, 0, 1, to + MIDDLE, 2, type, 0, 1, MPI_COMM_SELF, &status);
    print_written("sent and received");
}

static void print_external(MPI_Datatype type) {
    MPI_Aint room, end = 2, back = 2;
    clear();
    memset(packed, 0, sizeof packed);
    MPI_Pack_external_size("external32", 2, type, &room);
    MPI_Pack_external("external32", from + MIDDLE, 2, type, packed, room + 2, &end);
    MPI_Unpack_external("external32", packed, room + 2, &back, to + MIDDLE, 2, type);
    printf("external: %ld packed to %ld, unpacked to %ld:", (long)room, (long)end, (long)back);
    for (int i = 0; i < end; i++) {
        printf(" %02x", packed[i]);
    }
    printf("\n");
    print_written("out of it");
}

// Invalid arguments: each is refused, and valid ones between them are not.
static void print_refused(void) {
    int one[1] = {1}, at = 0, ints[4], order = MPI_ORDER_C;
    MPI_Aint bytes[2], end = 0;
    MPI_Datatype type, pair;
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    const int codes[] = {
        MPI_Type_create_subarray(1, one, one, INTS(0), -3, MPI_INT, &type),
        MPI_Type_create_subarray(1, INTS(4), INTS(2), INTS(-1), order, MPI_INT, &type),
        MPI_Type_contiguous(-1, MPI_INT, &type),
        MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type),
        MPI_Type_vector(1, -1, 1, MPI_INT, &type),
        MPI_Type_indexed(1, INTS(-1), INTS(0), MPI_INT, &type),
        MPI_Type_create_struct(1, one, BYTES(0), TYPES(MPI_DATATYPE_NULL), &type),
        MPI_Pack(from, 2, MPI_INT, packed, 8, &at, WORLD),
        MPI_Unpack(packed, 16, &at, to, 2, MPI_INT, WORLD),
        MPI_Pack_external("external32", from, 2, MPI_INT, packed, 8, &end),
        MPI_Type_get_contents(pair, 0, 0, 1, ints, bytes, &type),
        MPI_Type_get_contents(pair, 1, 0, 0, ints, bytes, &type),
        MPI_Type_get_contents(pair, 1, 0, 1, ints, bytes, &type),
        MPI_Type_get_contents(MPI_INT, 1, 1, 1, ints, bytes, &type),
        MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type),
        MPI_Reduce_local(from, to, 1, MPI_DOUBLE, MPI_BAND),
        MPI_Reduce_local(from, to, 1, MPI_INT, MPI_MAXLOC),
        MPI_Reduce_local(from, to, 1, MPI_2INT, MPI_SUM),
    };
    printf("refused:");
    for (int i = 0; i < LAST(codes); i++) {
        printf(" %d", codes[i] != MPI_SUCCESS);
    }
    printf("\n");
    MPI_Type_free(&pair);
}

int main(int argc, char **argv) {
    named types[64];
    char name[MPI_MAX_OBJECT_NAME];
    int rank, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    int plain = make_plain(types), count = make_nested(types, make_arrays(types, plain, rank));
    for (int i = 0; i < count; i++) {
        MPI_Type_commit(&types[i].type);
        int own = i % 5 == rank || strncmp(types[i].name, "create_darray", 13) == 0;
        if (own) {
            printf("%s\n", types[i].name);
            print_bounds(types[i].type);
            print_contents(types[i].type);
            print_bytes(types[i].type);
        }
    }
    const MPI_Datatype external[] = {
        MPI_LONG,      MPI_UNSIGNED_LONG, MPI_C_DOUBLE_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_CHAR,
        MPI_SHORT,     MPI_INT,           MPI_UNSIGNED,         MPI_INT64_T,         MPI_FLOAT,
        MPI_DOUBLE,    MPI_BYTE,          MPI_UINT16_T,         types[4].type,       types[5].type,
        types[10].type};
    for (int i = 0; i < LAST(external) && rank == 0; i++) {
        print_external(external[i]);
    }
    print_refused();
    MPI_Type_set_name(types[0].type, "three ints");
    MPI_Type_get_name(types[0].type, name, &length);
    printf("%s, %d, ", name, length);
    for (int i = 0; i < count; i++) {
        MPI_Type_free(&types[i].type);
    }
    printf("%d\n", types[0].type == MPI_DATATYPE_NULL);
    MPI_Finalize();
    return 0;
}
