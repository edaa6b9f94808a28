// State of objects, of 4 ranks: attributes, infos, error handlers and error codes.
#include "say.h"

static int log_of[64], logged;

static int copy(MPI_Comm comm, int key, void *state, void *in, void *out, int *flag) {
    (void)comm;
    (void)key;
    int value = *(int *)in, step = *(int *)state;
    log_of[logged++] = 100 + value;
    static int copies[8], made;
    copies[made] = value + step;
    *(int **)out = &copies[made++];
    *flag = value != 3;  // that one is not copied
    return MPI_SUCCESS;
}

static int gone(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm;
    (void)key;
    log_of[logged++] = 1000 * *(int *)state + *(int *)value;
    return MPI_SUCCESS;
}

static int by_value(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

// In no order: MPI leaves it open.
static void say_log(const char *what) {
    qsort(log_of, (size_t)logged, sizeof log_of[0], by_value);
    say(what, logged, log_of);
    logged = 0;
}

static void say_attributes(const char *what, MPI_Comm comm, const int *keys) {
    printf("%s:", what);
    for (int i = 0; i < 4; i++) {
        int flag, *value = NULL;
        MPI_Comm_get_attr(comm, keys[i], &value, &flag);
        printf(" %d", flag ? *value : -1);
    }
    printf("\n");
}

static void attributes(void) {
    static int state = 5, values[] = {1, 2, 3, 4, 9};
    int keys[4], old;
    MPI_Comm comm, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 4; i++) {
        MPI_Comm_create_keyval(i == 0   ? MPI_COMM_NULL_COPY_FN
                               : i == 3 ? MPI_COMM_DUP_FN
                                        : copy,
                               i == 3 ? MPI_COMM_NULL_DELETE_FN : gone, &keys[i], &state);
        say_attributes("before", comm, (int[]){keys[0], keys[0], keys[0], keys[0]});
        MPI_Comm_set_attr(comm, keys[i], &values[i]);
    }
    say_attributes("set", comm, keys);
    MPI_Comm_dup(comm, &other);
    say_log("copied");
    say_attributes("dup", other, keys);
    MPI_Comm_set_attr(other, keys[1], &values[4]);
    say_log("set again");
    MPI_Comm_delete_attr(comm, keys[1]);
    say_log("deleted");
    say_attributes("left", comm, keys);
    say_attributes("its dup", other, keys);
    old = keys[0];
    MPI_Comm_free_keyval(&keys[0]);
    SAY("freed", keys[0] == MPI_KEYVAL_INVALID);
    keys[0] = old;
    MPI_Comm_free(&other);
    say_log("dup freed");
    MPI_Comm_split(comm, 0, 0, &other);
    say_attributes("split", other, (int[]){keys[1], keys[2], keys[3], keys[3]});
    MPI_Comm_free(&other);
    MPI_Comm_free(&comm);
    say_log("all freed");
    for (int i = 1; i < 4; i++) {
        MPI_Comm_free_keyval(&keys[i]);
    }
    int flag, *value;
    MPI_Keyval_create(copy, gone, &keys[0], &state);  // by its name of MPI 1
    MPI_Attr_put(MPI_COMM_WORLD, keys[0], &values[4]);
    MPI_Attr_get(MPI_COMM_WORLD, keys[0], &value, &flag);
    SAY("put", flag, flag ? *value : 0);
    MPI_Attr_delete(MPI_COMM_WORLD, keys[0]);
    MPI_Attr_get(MPI_COMM_WORLD, keys[0], &value, &flag);
    MPI_Keyval_free(&keys[0]);
    SAY("freed", flag, keys[0] == MPI_KEYVAL_INVALID);
    say_log("deleted");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &flag);
    SAY("host", flag && *value == MPI_PROC_NULL);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag);
    SAY("number", flag ? *value : 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
    SAY("last code", flag && *value >= MPI_ERR_LASTCODE);
}

// Each process numbers its own.
static void codes_of_errors(void) {
    int first, second, class_of, flag, length, *last;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Add_error_class(&first);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    SAY("added", flag && *last == first);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Add_error_code(first, &second);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    MPI_Error_class(second, &class_of);
    MPI_Add_error_string(second, me == 0 ? "of the first" : "of another");
    MPI_Error_string(second, text, &length);
    SAY(text, class_of == first, length);
}

// A constant's name and attributes are each process's own.
static void constants(void) {
    int key, flag, length, *value;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    if (me == 0) {
        MPI_Type_set_name(MPI_LONG, "whole numbers");
    }
    if (me < 2) {
        MPI_Type_set_attr(MPI_LONG, key, &key);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_get_name(MPI_LONG, name, &length);
    MPI_Type_get_attr(MPI_LONG, key, &value, &flag);
    SAY(name, length, flag, flag && value == &key);
    if (flag) {
        MPI_Type_delete_attr(MPI_LONG, key);
    }
    MPI_Type_free_keyval(&key);
    MPI_Type_get_name(MPI_C_COMPLEX, name, &length);
    SAY(name, length);
}

// Handles of all kinds are integers in both.
static void attributes_of_types_and_windows(void) {
    static int state = 3, values[] = {1, 2};
    int key, flag, *value;
    MPI_Datatype two, dup;
    MPI_Win win;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_create_keyval(copy, gone, &key, &state);
    MPI_Type_set_attr(two, key, &values[0]);
    MPI_Type_dup(two, &dup);
    MPI_Type_delete_attr(two, key);
    say_log("type");
    MPI_Type_get_attr(two, key, &value, &flag);
    SAY("deleted", flag);
    MPI_Type_get_attr(dup, key, &value, &flag);
    SAY("its dup", flag, flag ? *value : 0);
    MPI_Type_free(&dup);
    MPI_Type_free(&two);
    MPI_Type_free_keyval(&key);
    say_log("types freed");
    MPI_Win_create(values, sizeof values, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, gone, &key, &state);
    for (int i = 0; i < 2; i++) {
        MPI_Win_set_attr(win, key, &values[i]);
        MPI_Win_get_attr(win, key, &value, &flag);
        SAY("window", flag, flag ? *value : 0);
    }
    MPI_Win_delete_attr(win, key);
    MPI_Win_get_attr(win, key, &value, &flag);
    SAY("deleted", flag);
    MPI_Win_set_attr(win, key, &values[0]);
    MPI_Win_free(&win);
    MPI_Win_free_keyval(&key);
    say_log("window freed");
}

static void say_info(const char *what, MPI_Info info) {
    int count, length, flag;
    MPI_Info_get_nkeys(info, &count);
    printf("%s: %d\n", what, count);
    for (int i = 0; i < count; i++) {
        char key[MPI_MAX_INFO_KEY + 1], value[64] = "", part[8] = "";
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get_valuelen(info, key, &length, &flag);
        MPI_Info_get(info, key, 63, value, &flag);
        int room = 4, ask = 0;
        MPI_Info_get_string(info, key, &room, part, &flag);
        MPI_Info_get_string(info, key, &ask, part, &flag);
        printf("%s=%s %d %d %s %d %d\n", key, value, length, flag, part, room, ask);
    }
}

static void infos(void) {
    MPI_Info info, dup;
    int flag = -1, length = -7;
    char value[8] = "as was";
    MPI_Info_create(&info);
    say_info("empty", info);
    MPI_Info_set(info, "one", "1");
    MPI_Info_set(info, "two", "twenty-two");
    MPI_Info_set(info, "three", "with spaces in");
    MPI_Info_set(info, "one", "another");
    say_info("three", info);
    MPI_Info_dup(info, &dup);
    MPI_Info_delete(info, "two");
    say_info("two", info);
    say_info("dup", dup);
    MPI_Info_get(info, "two", 7, value, &flag);
    SAY("not there", flag);
    MPI_Info_get_valuelen(info, "two", &length, &flag);
    SAY("not there", flag, length);
    MPI_Info_delete(dup, "three");
    MPI_Info_delete(dup, "one");
    say_info("one", dup);
    MPI_Info_free(&info);
    MPI_Info_free(&dup);
    printf("%d\n", info == MPI_INFO_NULL);
}

static int handled, handled_by;

static void handler(MPI_Comm *comm, int *code, ...) {
    int class_of;
    MPI_Error_class(*code, &class_of);
    handled++;
    handled_by = *comm == MPI_COMM_WORLD ? 1 : 2;
    printf("handles an error: rank %d, number %d\n", class_of == MPI_ERR_RANK, handled);
}

static void errors(void) {
    MPI_Errhandler own, got;
    MPI_Comm comm, dup;
    int value = 0, code, class_of, length, added[3];
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    SAY("fatal", got == MPI_ERRORS_ARE_FATAL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(comm, own);
    MPI_Errhandler_free(&own);
    SAY("freed", own == MPI_ERRHANDLER_NULL);
    MPI_Comm_dup(comm, &dup);
    code = MPI_Send(&value, 1, MPI_INT, 77, 0, comm);
    MPI_Error_class(code, &class_of);
    SAY("returned", class_of == MPI_ERR_RANK, handled, handled_by);
    MPI_Comm_call_errhandler(dup, MPI_ERR_RANK);
    SAY("called", handled, handled_by);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(comm, &got);
    SAY("returns", got == MPI_ERRORS_RETURN);
    const int codes[] = {MPI_Send(&value, 1, MPI_INT, 0, -5, comm),
                         MPI_Send(&value, -1, MPI_INT, 0, 0, comm),
                         MPI_Bcast(&value, 1, MPI_INT, 9, comm)};
    for (int i = 0; i < 3; i++) {
        MPI_Error_class(codes[i], &class_of);
        SAY("class", class_of == MPI_ERR_TAG, class_of == MPI_ERR_COUNT, class_of == MPI_ERR_ROOT,
            handled);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&dup);
    MPI_Add_error_class(&added[0]);
    MPI_Add_error_code(added[0], &added[1]);
    MPI_Add_error_code(MPI_ERR_TAG, &added[2]);
    MPI_Add_error_string(added[1], "what goes wrong here");
    for (int i = 0; i < 3; i++) {
        MPI_Error_class(added[i], &class_of);
        SAY("added", class_of == added[0], class_of == MPI_ERR_TAG);
    }
    MPI_Error_string(added[1], text, &length);
    printf("%s %d\n", text, length);
}

static MPI_Win window;

static void win_handler(MPI_Win *win, int *code, ...) {
    int class_of;
    MPI_Error_class(*code, &class_of);
    SAY("handles an error of a window", *win == window, class_of == MPI_ERR_RANK, ++handled);
}

static void window_errors(void) {
    MPI_Errhandler own, got;
    int value = 0, class_of;
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Win_get_errhandler(window, &got);
    SAY("fatal", got == MPI_ERRORS_ARE_FATAL);
    MPI_Win_create_errhandler(win_handler, &own);
    MPI_Win_set_errhandler(window, own);
    MPI_Errhandler_free(&own);
    MPI_Error_class(MPI_Put(&value, 1, MPI_INT, 77, 0, 1, MPI_INT, window), &class_of);
    SAY("returned", class_of == MPI_ERR_RANK, handled);
    SAY("called", MPI_Win_call_errhandler(window, MPI_ERR_RANK) == MPI_SUCCESS, handled);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_get_errhandler(window, &got);
    SAY("returns", got == MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Put(&value, 1, MPI_INT, -7, 0, 1, MPI_INT, window), &class_of);
    SAY("returned", class_of == MPI_ERR_RANK, handled);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

int main(void) {
    int before, after, done, flag, level;
    MPI_Initialized(&before);
    start();
    MPI_Initialized(&after);
    MPI_Finalized(&done);
    MPI_Is_thread_main(&flag);
    MPI_Query_thread(&level);
    SAY("there", before, after, done, flag, level >= MPI_THREAD_SINGLE);
    double first = MPI_Wtime();
    SAY("time", MPI_Wtime() >= first, MPI_Wtick() > 0);
    attributes();
    attributes_of_types_and_windows();
    constants();
    codes_of_errors();
    infos();
    errors();
    window_errors();
    MPI_Finalize();
    MPI_Finalized(&done);
    SAY("done", done);
    return 0;
}
