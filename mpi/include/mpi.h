// MPI 3.1 in C for `lockstep mpi`, which runs every process as a rank of one program. Source
// compatible; the binary interface is lockstep's own. mpi_absent.h declares the functions that
// lockstep does not implement.
#ifndef LS_MPI_INCLUDE_MPI_H
#define LS_MPI_INCLUDE_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_MPI   1
#define MPI_VERSION    3
#define MPI_SUBVERSION 1

// ---- Handles: bits 27-30 are the kind, bits 19-26 the generation --------------------------------
typedef int MPI_Comm;
typedef int MPI_Group;
typedef int MPI_Datatype;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Win;
typedef int MPI_Errhandler;
typedef int MPI_Info;
typedef int MPI_Message;
typedef ptrdiff_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

#define MPI_COMM_NULL        ((MPI_Comm)0x08000000)
#define MPI_COMM_WORLD       ((MPI_Comm)0x08000001)
#define MPI_COMM_SELF        ((MPI_Comm)0x08000002)
#define MPI_GROUP_NULL       ((MPI_Group)0x10000000)
#define MPI_GROUP_EMPTY      ((MPI_Group)0x10000001)
#define MPI_REQUEST_NULL     ((MPI_Request)0x28000000)
#define MPI_WIN_NULL         ((MPI_Win)0x30000000)
#define MPI_ERRHANDLER_NULL  ((MPI_Errhandler)0x38000000)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x38000001)
#define MPI_ERRORS_RETURN    ((MPI_Errhandler)0x38000002)
#define MPI_INFO_NULL        ((MPI_Info)0x40000000)
#define MPI_INFO_ENV         ((MPI_Info)0x40000001)
#define MPI_MESSAGE_NULL     ((MPI_Message)0x48000000)
#define MPI_MESSAGE_NO_PROC  ((MPI_Message)0x48000001)
#define MPI_FILE_NULL        0

// ---- Datatypes ----------------------------------------------------------------------------------
#define LS_MPI_TYPE_(n)             ((MPI_Datatype)(0x18000000 + (n)))
#define MPI_DATATYPE_NULL           LS_MPI_TYPE_(0)
#define MPI_CHAR                    LS_MPI_TYPE_(1)
#define MPI_SIGNED_CHAR             LS_MPI_TYPE_(2)
#define MPI_UNSIGNED_CHAR           LS_MPI_TYPE_(3)
#define MPI_BYTE                    LS_MPI_TYPE_(4)
#define MPI_PACKED                  LS_MPI_TYPE_(5)
#define MPI_WCHAR                   LS_MPI_TYPE_(6)
#define MPI_SHORT                   LS_MPI_TYPE_(7)
#define MPI_UNSIGNED_SHORT          LS_MPI_TYPE_(8)
#define MPI_INT                     LS_MPI_TYPE_(9)
#define MPI_UNSIGNED                LS_MPI_TYPE_(10)
#define MPI_LONG                    LS_MPI_TYPE_(11)
#define MPI_UNSIGNED_LONG           LS_MPI_TYPE_(12)
#define MPI_LONG_LONG_INT           LS_MPI_TYPE_(13)
#define MPI_LONG_LONG               MPI_LONG_LONG_INT
#define MPI_UNSIGNED_LONG_LONG      LS_MPI_TYPE_(14)
#define MPI_FLOAT                   LS_MPI_TYPE_(15)
#define MPI_DOUBLE                  LS_MPI_TYPE_(16)
#define MPI_LONG_DOUBLE             LS_MPI_TYPE_(17)
#define MPI_INT8_T                  LS_MPI_TYPE_(18)
#define MPI_INT16_T                 LS_MPI_TYPE_(19)
#define MPI_INT32_T                 LS_MPI_TYPE_(20)
#define MPI_INT64_T                 LS_MPI_TYPE_(21)
#define MPI_UINT8_T                 LS_MPI_TYPE_(22)
#define MPI_UINT16_T                LS_MPI_TYPE_(23)
#define MPI_UINT32_T                LS_MPI_TYPE_(24)
#define MPI_UINT64_T                LS_MPI_TYPE_(25)
#define MPI_C_BOOL                  LS_MPI_TYPE_(26)
#define MPI_C_FLOAT_COMPLEX         LS_MPI_TYPE_(27)
#define MPI_C_COMPLEX               MPI_C_FLOAT_COMPLEX
#define MPI_C_DOUBLE_COMPLEX        LS_MPI_TYPE_(28)
#define MPI_C_LONG_DOUBLE_COMPLEX   LS_MPI_TYPE_(29)
#define MPI_AINT                    LS_MPI_TYPE_(30)
#define MPI_OFFSET                  LS_MPI_TYPE_(31)
#define MPI_COUNT                   LS_MPI_TYPE_(32)
#define MPI_FLOAT_INT               LS_MPI_TYPE_(33)
#define MPI_DOUBLE_INT              LS_MPI_TYPE_(34)
#define MPI_LONG_INT                LS_MPI_TYPE_(35)
#define MPI_2INT                    LS_MPI_TYPE_(36)
#define MPI_SHORT_INT               LS_MPI_TYPE_(37)
#define MPI_LONG_DOUBLE_INT         LS_MPI_TYPE_(38)
#define MPI_LB                      LS_MPI_TYPE_(39)
#define MPI_UB                      LS_MPI_TYPE_(40)
#define MPI_CXX_BOOL                LS_MPI_TYPE_(41)
#define MPI_CXX_FLOAT_COMPLEX       LS_MPI_TYPE_(42)
#define MPI_CXX_DOUBLE_COMPLEX      LS_MPI_TYPE_(43)
#define MPI_CXX_LONG_DOUBLE_COMPLEX LS_MPI_TYPE_(44)
// Fortran's types, of the default kinds.
#define MPI_CHARACTER        LS_MPI_TYPE_(45)
#define MPI_INTEGER          LS_MPI_TYPE_(46)
#define MPI_REAL             LS_MPI_TYPE_(47)
#define MPI_DOUBLE_PRECISION LS_MPI_TYPE_(48)
#define MPI_COMPLEX          LS_MPI_TYPE_(49)
#define MPI_DOUBLE_COMPLEX   LS_MPI_TYPE_(50)
#define MPI_LOGICAL          LS_MPI_TYPE_(51)
#define MPI_2INTEGER         LS_MPI_TYPE_(52)
#define MPI_INTEGER1         LS_MPI_TYPE_(53)
#define MPI_INTEGER2         LS_MPI_TYPE_(54)
#define MPI_INTEGER4         LS_MPI_TYPE_(55)
#define MPI_INTEGER8         LS_MPI_TYPE_(56)
#define MPI_COMPLEX8         LS_MPI_TYPE_(57)
#define MPI_COMPLEX16        LS_MPI_TYPE_(58)
#define MPI_REAL4            LS_MPI_TYPE_(59)
#define MPI_REAL8            LS_MPI_TYPE_(60)

// Types that MPI omits if the compiler lacks them.
#define MPI_INTEGER16         MPI_DATATYPE_NULL
#define MPI_REAL2             MPI_DATATYPE_NULL
#define MPI_REAL16            MPI_DATATYPE_NULL
#define MPI_COMPLEX4          MPI_DATATYPE_NULL
#define MPI_COMPLEX32         MPI_DATATYPE_NULL
#define MPI_2REAL             MPI_DATATYPE_NULL
#define MPI_2DOUBLE_PRECISION MPI_DATATYPE_NULL

// ---- Operations ---------------------------------------------------------------------------------
#define LS_MPI_OP_(n) ((MPI_Op)(0x20000000 + (n)))
#define MPI_OP_NULL   LS_MPI_OP_(0)
#define MPI_MAX       LS_MPI_OP_(1)
#define MPI_MIN       LS_MPI_OP_(2)
#define MPI_SUM       LS_MPI_OP_(3)
#define MPI_PROD      LS_MPI_OP_(4)
#define MPI_LAND      LS_MPI_OP_(5)
#define MPI_BAND      LS_MPI_OP_(6)
#define MPI_LOR       LS_MPI_OP_(7)
#define MPI_BOR       LS_MPI_OP_(8)
#define MPI_LXOR      LS_MPI_OP_(9)
#define MPI_BXOR      LS_MPI_OP_(10)
#define MPI_MAXLOC    LS_MPI_OP_(11)
#define MPI_MINLOC    LS_MPI_OP_(12)
#define MPI_REPLACE   LS_MPI_OP_(13)
#define MPI_NO_OP     LS_MPI_OP_(14)

// ---- Numbers ------------------------------------------------------------------------------------
enum {
    MPI_ANY_SOURCE = -2,
    MPI_PROC_NULL = -1,
    MPI_ROOT = -3,
    MPI_ANY_TAG = -1,
    MPI_UNDEFINED = -32766,
    MPI_BSEND_OVERHEAD = 64,
    MPI_TAG_UB = 1,  // key values
    MPI_HOST,
    MPI_IO,
    MPI_WTIME_IS_GLOBAL,
    MPI_UNIVERSE_SIZE,
    MPI_LASTUSEDCODE,
    MPI_APPNUM,
    MPI_WIN_BASE,
    MPI_WIN_SIZE,
    MPI_WIN_DISP_UNIT,
    MPI_WIN_CREATE_FLAVOR,
    MPI_WIN_MODEL,
    MPI_KEYVAL_INVALID = -1,
    MPI_THREAD_SINGLE = 0,
    MPI_THREAD_FUNNELED,
    MPI_THREAD_SERIALIZED,
    MPI_THREAD_MULTIPLE,
    MPI_IDENT = 0,
    MPI_CONGRUENT,
    MPI_SIMILAR,
    MPI_UNEQUAL,
    MPI_GRAPH = 1,
    MPI_CART,
    MPI_DIST_GRAPH,
    MPI_COMM_TYPE_SHARED = 1,
    MPI_MODE_NOCHECK = 1024,
    MPI_MODE_NOSTORE = 2048,
    MPI_MODE_NOPUT = 4096,
    MPI_MODE_NOPRECEDE = 8192,
    MPI_MODE_NOSUCCEED = 16384,
    MPI_LOCK_EXCLUSIVE = 234,
    MPI_LOCK_SHARED = 235,
    MPI_WIN_FLAVOR_CREATE = 1,
    MPI_WIN_FLAVOR_ALLOCATE,
    MPI_WIN_FLAVOR_DYNAMIC,
    MPI_WIN_FLAVOR_SHARED,
    MPI_WIN_SEPARATE = 1,
    MPI_WIN_UNIFIED,
    MPI_ORDER_C = 56,
    MPI_ORDER_FORTRAN,
    MPI_DISTRIBUTE_BLOCK = 121,
    MPI_DISTRIBUTE_CYCLIC,
    MPI_DISTRIBUTE_NONE,
    MPI_DISTRIBUTE_DFLT_DARG = -49767,
    MPI_TYPECLASS_REAL = 1,
    MPI_TYPECLASS_INTEGER,
    MPI_TYPECLASS_COMPLEX,
    MPI_COMBINER_NAMED = 1,
    MPI_COMBINER_DUP,
    MPI_COMBINER_CONTIGUOUS,
    MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR,
    MPI_COMBINER_INDEXED,
    MPI_COMBINER_HINDEXED,
    MPI_COMBINER_INDEXED_BLOCK,
    MPI_COMBINER_HINDEXED_BLOCK,
    MPI_COMBINER_STRUCT,
    MPI_COMBINER_SUBARRAY,
    MPI_COMBINER_DARRAY,
    MPI_COMBINER_RESIZED,
    MPI_COMBINER_F90_REAL,
    MPI_COMBINER_F90_COMPLEX,
    MPI_COMBINER_F90_INTEGER,
    MPI_COMBINER_HVECTOR_INTEGER,
    MPI_COMBINER_HINDEXED_INTEGER,
    MPI_COMBINER_STRUCT_INTEGER
};
#define MPI_MAX_PROCESSOR_NAME         256
#define MPI_MAX_ERROR_STRING           512
#define MPI_MAX_OBJECT_NAME            128
#define MPI_MAX_LIBRARY_VERSION_STRING 256
#define MPI_MAX_INFO_KEY               255
#define MPI_MAX_INFO_VAL               1024
#define MPI_MAX_PORT_NAME              256
#define MPI_BOTTOM                     ((void *)0)
#define MPI_IN_PLACE                   ((void *)-1)
#define MPI_ARGV_NULL                  ((char **)0)
#define MPI_ARGVS_NULL                 ((char ***)0)
#define MPI_UNWEIGHTED                 ((int *)1)
#define MPI_WEIGHTS_EMPTY              ((int *)2)

// MPI_SUCCESS and the classes of errors.
enum {
    MPI_SUCCESS,
    MPI_ERR_BUFFER,
    MPI_ERR_COUNT,
    MPI_ERR_TYPE,
    MPI_ERR_TAG,
    MPI_ERR_COMM,
    MPI_ERR_RANK,
    MPI_ERR_REQUEST,
    MPI_ERR_ROOT,
    MPI_ERR_GROUP,
    MPI_ERR_OP,
    MPI_ERR_TOPOLOGY,
    MPI_ERR_DIMS,
    MPI_ERR_ARG,
    MPI_ERR_UNKNOWN,
    MPI_ERR_TRUNCATE,
    MPI_ERR_OTHER,
    MPI_ERR_INTERN,
    MPI_ERR_IN_STATUS,
    MPI_ERR_PENDING,
    MPI_ERR_KEYVAL,
    MPI_ERR_NO_MEM,
    MPI_ERR_BASE,
    MPI_ERR_INFO_KEY,
    MPI_ERR_INFO_VALUE,
    MPI_ERR_INFO_NOKEY,
    MPI_ERR_SPAWN,
    MPI_ERR_PORT,
    MPI_ERR_SERVICE,
    MPI_ERR_NAME,
    MPI_ERR_WIN,
    MPI_ERR_SIZE,
    MPI_ERR_DISP,
    MPI_ERR_INFO,
    MPI_ERR_LOCKTYPE,
    MPI_ERR_ASSERT,
    MPI_ERR_RMA_CONFLICT,
    MPI_ERR_RMA_SYNC,
    MPI_ERR_RMA_RANGE,
    MPI_ERR_RMA_ATTACH,
    MPI_ERR_RMA_SHARED,
    MPI_ERR_RMA_FLAVOR,
    MPI_ERR_FILE,
    MPI_ERR_NOT_SAME,
    MPI_ERR_AMODE,
    MPI_ERR_UNSUPPORTED_DATAREP,
    MPI_ERR_UNSUPPORTED_OPERATION,
    MPI_ERR_NO_SUCH_FILE,
    MPI_ERR_FILE_EXISTS,
    MPI_ERR_BAD_FILE,
    MPI_ERR_ACCESS,
    MPI_ERR_NO_SPACE,
    MPI_ERR_QUOTA,
    MPI_ERR_READ_ONLY,
    MPI_ERR_FILE_IN_USE,
    MPI_ERR_DUP_DATAREP,
    MPI_ERR_CONVERSION,
    MPI_ERR_IO,
    MPI_ERR_LASTCODE = 1000
};

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int ls_cancelled;
    long long ls_bytes;     // received
    long long ls_elements;  // basic elements
} MPI_Status;
#define MPI_STATUS_IGNORE   ((MPI_Status *)1)
#define MPI_STATUSES_IGNORE ((MPI_Status *)1)
#define MPI_ERRCODES_IGNORE ((int *)0)

typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
typedef int MPI_Comm_copy_attr_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Comm_delete_attr_function(MPI_Comm, int, void *, void *);
typedef int MPI_Type_copy_attr_function(MPI_Datatype, int, void *, void *, void *, int *);
typedef int MPI_Type_delete_attr_function(MPI_Datatype, int, void *, void *);
typedef int MPI_Win_copy_attr_function(MPI_Win, int, void *, void *, void *, int *);
typedef int MPI_Win_delete_attr_function(MPI_Win, int, void *, void *);
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
typedef void MPI_Win_errhandler_function(MPI_Win *, int *, ...);
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;
typedef MPI_Comm_errhandler_function MPI_Handler_function;
typedef int MPI_Grequest_query_function(void *, MPI_Status *);
typedef int MPI_Grequest_free_function(void *);
typedef int MPI_Grequest_cancel_function(void *, int);
#define MPI_COMM_NULL_COPY_FN   ((MPI_Comm_copy_attr_function *)0)
#define MPI_COMM_NULL_DELETE_FN ((MPI_Comm_delete_attr_function *)0)
#define MPI_COMM_DUP_FN         (ls_mpi_dup_fn)
#define MPI_TYPE_NULL_COPY_FN   ((MPI_Type_copy_attr_function *)0)
#define MPI_TYPE_NULL_DELETE_FN ((MPI_Type_delete_attr_function *)0)
#define MPI_TYPE_DUP_FN         (ls_mpi_dup_fn)
#define MPI_WIN_NULL_COPY_FN    ((MPI_Win_copy_attr_function *)0)
#define MPI_WIN_NULL_DELETE_FN  ((MPI_Win_delete_attr_function *)0)
#define MPI_WIN_DUP_FN          (ls_mpi_dup_fn)
#define MPI_NULL_COPY_FN        MPI_COMM_NULL_COPY_FN
#define MPI_NULL_DELETE_FN      MPI_COMM_NULL_DELETE_FN
#define MPI_DUP_FN              MPI_COMM_DUP_FN

#define MPI_F_STATUS_SIZE     8  // integers
#define MPI_F_STATUS_IGNORE   ((MPI_Fint *)1)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)1)
typedef MPI_Status MPI_F08_status;
#define MPI_F08_STATUS_IGNORE   ((MPI_F08_status *)1)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status *)1)

#include <mpi_absent.h>
#include <mpi_functions.h>

#ifdef __cplusplus
}
#endif
#endif
