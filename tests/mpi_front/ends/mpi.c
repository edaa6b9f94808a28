// Ways in which rank 1 ends, or does not: argument 1 names one. Each is a function of ends.py.
#define _GNU_SOURCE
#include <err.h>
#include <error.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *way;
static int rank;

static int is(const char *name) {
    return strcmp(way, name) == 0;
}

static void *fault(void *arg) {
    *(volatile int *)8 = 1;
    return arg;
}

static int deep(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return n > 1 << 20 ? frame[0] : deep(n + 1) + frame[0];
}

static void fork_one(int child_status) {
    pid_t child = fork();
    if (child == 0 && is("fork_calls")) {
        MPI_Barrier(MPI_COMM_WORLD);  // line: fork_calls
    } else if (child == 0 && is("fork_stays")) {
        pause();
    } else if (child == 0 && is("fork_exec")) {
        execl("/bin/true", "true", (char *)NULL);
    }
    if (child == 0) {
        exit(child_status);
    }
    int status = 0;
    if (!is("fork_stays")) {
        waitpid(child, &status, 0);
    }
    if (!is("fork_calls") && !is("fork_stays") &&
        (!WIFEXITED(status) || WEXITSTATUS(status) != (is("fork_exec") ? 0 : child_status))) {
        exit(9);
    }
}

// Takes handles until there are no more: of types, for which memory ends before, and of infos.
static void take_all(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) {
        exit(9);
    }
    fclose(file);
    rlim_t most = (rlim_t)(pages * sysconf(_SC_PAGESIZE)) + (32 << 20);
    if (is("no_memory") && setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) != 0) {
        exit(9);
    }
    for (;;) {
        MPI_Datatype type;
        MPI_Info info;
        if (is("no_memory")) {
            MPI_Type_contiguous(3, MPI_INT, &type);  // line: no_memory
        } else {
            MPI_Info_create(&info);  // line: no_handles
        }
    }
}

// An unreadable or unwritable buffer, in a call that another rank's thread may complete.
static void bad_buffers(void) {
    static const char text[64] = "read only";
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int mine[4] = {0}, sum[4];
    if (is("bad_send")) {
        // line: bad_send
        MPI_Allreduce(rank == 1 ? closed : mine, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else if (is("bad_recv") && rank == 0) {
        MPI_Send(mine, 4, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (is("bad_recv") && rank == 1) {
        // line: bad_recv
        MPI_Recv(closed, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is("bad_const")) {
        // line: bad_const
        MPI_Bcast(rank == 1 ? (void *)(size_t)text : mine, 4, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (is("bad_out") && rank == 1) {
        // line: bad_out
        MPI_Comm_size(MPI_COMM_WORLD, closed);
    }
}

static void end(void) {
    sigset_t all;
    pthread_t thread;
    const char *volatile nowhere = (const char *)8;
    sigfillset(&all);
    if (is("fault")) {
        fault(NULL);
    } else if (is("abort")) {
        abort();
    } else if (is("abort_ignored")) {
        signal(SIGABRT, SIG_IGN);
        abort();
    } else if (is("fault_blocked")) {
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        fault(NULL);
    } else if (is("fault_of_thread")) {
        pthread_create(&thread, NULL, fault, NULL);
        pthread_join(thread, NULL);
    } else if (is("fault_in_library")) {
        printf("%zu\n", strlen(nowhere));
    } else if (is("deep")) {
        exit(deep(0));
    } else if (is("killed")) {
        kill(getpid(), SIGKILL);
    } else if (is("exit_group")) {
        syscall(SYS_exit_group, 0);
    } else if (is("thread_exit")) {
        syscall(SYS_exit, 0);
    } else if (is("pthread_exit")) {
        pthread_exit(NULL);
    } else if (is("exec")) {
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    } else if (is("daemon") && daemon(1, 1) != 0) {
        exit(9);
    } else if (is("exit")) {
        exit(0);
    } else if (is("quick_exit")) {
        quick_exit(0);
    } else if (is("err")) {
        err(0, "over");
    } else if (is("errx")) {
        errx(0, "over");
    } else if (is("error")) {
        error(3, 0, "over");
    } else if (is("_Exit")) {
        _Exit(0);
    } else if (strncmp(way, "fork_", 5) == 0) {
        fork_one(7);
    }
}

static void late(void) {
    int flag = 0;
    MPI_Finalized(&flag);
    if (flag != 0 && is("atexit_calls")) {
        MPI_Barrier(MPI_COMM_WORLD);  // line: atexit_calls
    } else if (flag == 0) {
        MPI_Finalize();
    }
}

// As processes, ranks have separate working folders, variables and umasks.
static void own_world(void) {
    char name[32], there[4096];
    snprintf(name, sizeof name, "folder%d", rank);
    if (mkdir(name, 0755) != 0 || chdir(name) != 0 || setenv("MINE", name, 1) != 0) {
        exit(9);
    }
    umask(rank == 1 ? 077 : 022);
    MPI_Barrier(MPI_COMM_WORLD);
    setenv(rank == 1 ? "ONE" : "OTHER", "set", 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const char *end = getcwd(there, sizeof there) != NULL ? strrchr(there, '/') : "/";
    if (strcmp(getenv("MINE"), name) != 0 || strcmp(end + 1, name) != 0 ||
        umask(0) != (rank == 1 ? 077 : 022) || (getenv("ONE") != NULL) != (rank == 1)) {
        exit(9);
    }
}

// Rank 1 closes or redirects its output; the others continue to print.
static void streams(void) {
    printf("rank %d before\n", rank);
    if (rank == 1 && is("closes_stream")) {
        (void)fclose(stdout);
    } else if (rank == 1 && is("closes_file")) {
        (void)close(STDOUT_FILENO);
    } else if (rank == 1 && is("closes_all")) {
        for (int i = 0; i < 1024; i++) {
            (void)close(i);
        }
    } else if (rank == 1 && is("redirects")) {
        rank = freopen("redirected", "w", stdout) != NULL ? rank : 3;
        printf("rank %d redirected\n", rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 1) {
        printf("rank %d after\n", rank);
    }
}

// Half a second of processor time.
static void computes(void) {
    struct timespec now = {0};
    while (now.tv_sec == 0 && now.tv_nsec < 500000000) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    }
}

int main(int argc, char **argv) {
    way = argv[1];
    if (is("no_call")) {
        return 0;
    }
    MPI_Init(&argc, &argv);
    if (is("no_other_call")) {
        return MPI_Finalize();
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);  // line: last
    bad_buffers();
    if (rank == 1) {
        end();
    }
    if (rank == 1 && (is("no_memory") || is("no_handles"))) {
        take_all();
    }
    if (is("own_world")) {
        own_world();
    }
    if (is("computes")) {
        computes();
    }
    if (strncmp(way, "closes_", 7) == 0 || is("redirects")) {
        streams();
    }
    if (strncmp(way, "atexit_", 7) == 0) {
        atexit(late);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is("atexit_finalises")) {
        return 0;
    }
    MPI_Finalize();
    if (is("after_quick_exit")) {
        quick_exit(0);
    } else if (is("after_errx")) {
        errx(0, "over");
    } else if (is("after__exit")) {
        _exit(0);
    } else if (is("after_exit")) {
        exit(0);
    }
    return 0;
}
