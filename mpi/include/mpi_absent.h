// Functions of MPI 3.1 that lockstep does not implement. A program that names them builds and runs.
// A call of a file function returns an error code; any other call ends the run with a message.
#ifndef LS_MPI_INCLUDE_MPI_ABSENT_H
#define LS_MPI_INCLUDE_MPI_ABSENT_H

#pragma GCC system_header  // old-style declarations without parameters

typedef int MPI_File;
typedef int MPI_T_enum;
typedef int MPI_T_cvar_handle;
typedef int MPI_T_pvar_handle;
typedef int MPI_T_pvar_session;
typedef void MPI_File_errhandler_function(MPI_File *, int *, ...);
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef int MPI_Datarep_conversion_function(void *, MPI_Datatype, int, void *, MPI_Offset, void *);
typedef int MPI_Datarep_extent_function(MPI_Datatype, MPI_Aint *, void *);
#define MPI_CONVERSION_FN_NULL   ((MPI_Datarep_conversion_function *)0)
#define MPI_FILE_NULL            ((MPI_File)0)
#define MPI_DISPLACEMENT_CURRENT (-54278278)
#define MPI_MAX_DATAREP_STRING   128
enum {
    MPI_MODE_RDONLY = 2,
    MPI_MODE_RDWR = 8,
    MPI_MODE_WRONLY = 4,
    MPI_MODE_CREATE = 1,
    MPI_MODE_EXCL = 64,
    MPI_MODE_DELETE_ON_CLOSE = 16,
    MPI_MODE_UNIQUE_OPEN = 32,
    MPI_MODE_APPEND = 128,
    MPI_MODE_SEQUENTIAL = 256,
    MPI_SEEK_SET = 600,
    MPI_SEEK_CUR = 602,
    MPI_SEEK_END = 604
};
enum {
    MPI_T_ERR_MEMORY = 59,
    MPI_T_ERR_NOT_INITIALIZED,
    MPI_T_ERR_CANNOT_INIT,
    MPI_T_ERR_INVALID_INDEX,
    MPI_T_ERR_INVALID_ITEM,
    MPI_T_ERR_INVALID_HANDLE,
    MPI_T_ERR_OUT_OF_HANDLES,
    MPI_T_ERR_OUT_OF_SESSIONS,
    MPI_T_ERR_INVALID_SESSION,
    MPI_T_ERR_CVAR_SET_NOT_NOW,
    MPI_T_ERR_CVAR_SET_NEVER,
    MPI_T_ERR_PVAR_NO_STARTSTOP,
    MPI_T_ERR_PVAR_NO_WRITE,
    MPI_T_ERR_PVAR_NO_ATOMIC,
    MPI_T_ERR_INVALID_NAME,
    MPI_T_ERR_INVALID,
    MPI_T_ERR_NOT_SUPPORTED,
    MPI_T_VERBOSITY_USER_BASIC = 221,
    MPI_T_VERBOSITY_USER_DETAIL,
    MPI_T_VERBOSITY_USER_ALL,
    MPI_T_VERBOSITY_TUNER_BASIC,
    MPI_T_VERBOSITY_TUNER_DETAIL,
    MPI_T_VERBOSITY_TUNER_ALL,
    MPI_T_VERBOSITY_MPIDEV_BASIC,
    MPI_T_VERBOSITY_MPIDEV_DETAIL,
    MPI_T_VERBOSITY_MPIDEV_ALL,
    MPI_T_BIND_NO_OBJECT = 9700,
    MPI_T_BIND_MPI_COMM,
    MPI_T_BIND_MPI_DATATYPE,
    MPI_T_BIND_MPI_ERRHANDLER,
    MPI_T_BIND_MPI_FILE,
    MPI_T_BIND_MPI_GROUP,
    MPI_T_BIND_MPI_OP,
    MPI_T_BIND_MPI_REQUEST,
    MPI_T_BIND_MPI_WIN,
    MPI_T_BIND_MPI_MESSAGE,
    MPI_T_BIND_MPI_INFO,
    MPI_T_SCOPE_CONSTANT = 60438,
    MPI_T_SCOPE_READONLY,
    MPI_T_SCOPE_LOCAL,
    MPI_T_SCOPE_GROUP,
    MPI_T_SCOPE_GROUP_EQ,
    MPI_T_SCOPE_ALL,
    MPI_T_SCOPE_ALL_EQ,
    MPI_T_PVAR_CLASS_STATE = 240,
    MPI_T_PVAR_CLASS_LEVEL,
    MPI_T_PVAR_CLASS_SIZE,
    MPI_T_PVAR_CLASS_PERCENTAGE,
    MPI_T_PVAR_CLASS_HIGHWATERMARK,
    MPI_T_PVAR_CLASS_LOWWATERMARK,
    MPI_T_PVAR_CLASS_COUNTER,
    MPI_T_PVAR_CLASS_AGGREGATE,
    MPI_T_PVAR_CLASS_TIMER,
    MPI_T_PVAR_CLASS_GENERIC
};
#define MPI_T_ENUM_NULL         ((MPI_T_enum)0)
#define MPI_T_CVAR_HANDLE_NULL  ((MPI_T_cvar_handle)0)
#define MPI_T_PVAR_HANDLE_NULL  ((MPI_T_pvar_handle)0)
#define MPI_T_PVAR_SESSION_NULL ((MPI_T_pvar_session)0)
#define MPI_T_PVAR_ALL_HANDLES  ((MPI_T_pvar_handle)1)

// Files: each returns MPI_ERR_UNSUPPORTED_OPERATION; R() and F() set their request or file to null.
#define LS_MPI_ABSENT_FILES(X, R, F)                                                               \
    X(MPI_File_call_errhandler, (MPI_File fh, int errorcode))                                      \
    X(MPI_File_close, (MPI_File * fh))                                                             \
    X(MPI_File_create_errhandler,                                                                  \
      (MPI_File_errhandler_function * file_errhandler_fn, MPI_Errhandler * errhandler))            \
    X(MPI_File_delete, (const char *filename, MPI_Info info))                                      \
    X(MPI_File_get_amode, (MPI_File fh, int *amode))                                               \
    X(MPI_File_get_atomicity, (MPI_File fh, int *flag))                                            \
    X(MPI_File_get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset * disp))               \
    X(MPI_File_get_errhandler, (MPI_File file, MPI_Errhandler * errhandler))                       \
    X(MPI_File_get_group, (MPI_File fh, MPI_Group * group))                                        \
    X(MPI_File_get_info, (MPI_File fh, MPI_Info * info_used))                                      \
    X(MPI_File_get_position, (MPI_File fh, MPI_Offset * offset))                                   \
    X(MPI_File_get_position_shared, (MPI_File fh, MPI_Offset * offset))                            \
    X(MPI_File_get_size, (MPI_File fh, MPI_Offset * size))                                         \
    X(MPI_File_get_type_extent, (MPI_File fh, MPI_Datatype datatype, MPI_Aint * extent))           \
    X(MPI_File_get_view, (MPI_File fh, MPI_Offset * disp, MPI_Datatype * etype,                    \
                          MPI_Datatype * filetype, char *datarep))                                 \
    R(MPI_File_iread,                                                                              \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request))            \
    R(MPI_File_iread_all,                                                                          \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request))            \
    R(MPI_File_iread_at, (MPI_File fh, MPI_Offset offset, void *buf, int count,                    \
                          MPI_Datatype datatype, MPI_Request *request))                            \
    R(MPI_File_iread_at_all, (MPI_File fh, MPI_Offset offset, void *buf, int count,                \
                              MPI_Datatype datatype, MPI_Request *request))                        \
    R(MPI_File_iread_shared,                                                                       \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Request *request))            \
    R(MPI_File_iwrite,                                                                             \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request))      \
    R(MPI_File_iwrite_all,                                                                         \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request))      \
    R(MPI_File_iwrite_at, (MPI_File fh, MPI_Offset offset, const void *buf, int count,             \
                           MPI_Datatype datatype, MPI_Request *request))                           \
    R(MPI_File_iwrite_at_all, (MPI_File fh, MPI_Offset offset, const void *buf, int count,         \
                               MPI_Datatype datatype, MPI_Request *request))                       \
    R(MPI_File_iwrite_shared,                                                                      \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Request *request))      \
    F(MPI_File_open,                                                                               \
      (MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh))               \
    X(MPI_File_preallocate, (MPI_File fh, MPI_Offset size))                                        \
    X(MPI_File_read,                                                                               \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status))              \
    X(MPI_File_read_all,                                                                           \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status))              \
    X(MPI_File_read_all_begin, (MPI_File fh, void *buf, int count, MPI_Datatype datatype))         \
    X(MPI_File_read_all_end, (MPI_File fh, void *buf, MPI_Status *status))                         \
    X(MPI_File_read_at, (MPI_File fh, MPI_Offset offset, void *buf, int count,                     \
                         MPI_Datatype datatype, MPI_Status *status))                               \
    X(MPI_File_read_at_all, (MPI_File fh, MPI_Offset offset, void *buf, int count,                 \
                             MPI_Datatype datatype, MPI_Status *status))                           \
    X(MPI_File_read_at_all_begin,                                                                  \
      (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype))               \
    X(MPI_File_read_at_all_end, (MPI_File fh, void *buf, MPI_Status *status))                      \
    X(MPI_File_read_ordered,                                                                       \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status))              \
    X(MPI_File_read_ordered_begin, (MPI_File fh, void *buf, int count, MPI_Datatype datatype))     \
    X(MPI_File_read_ordered_end, (MPI_File fh, void *buf, MPI_Status *status))                     \
    X(MPI_File_read_shared,                                                                        \
      (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status))              \
    X(MPI_File_seek, (MPI_File fh, MPI_Offset offset, int whence))                                 \
    X(MPI_File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence))                          \
    X(MPI_File_set_atomicity, (MPI_File fh, int flag))                                             \
    X(MPI_File_set_errhandler, (MPI_File file, MPI_Errhandler errhandler))                         \
    X(MPI_File_set_info, (MPI_File fh, MPI_Info info))                                             \
    X(MPI_File_set_size, (MPI_File fh, MPI_Offset size))                                           \
    X(MPI_File_set_view, (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, \
                          const char *datarep, MPI_Info info))                                     \
    X(MPI_File_sync, (MPI_File fh))                                                                \
    X(MPI_File_write,                                                                              \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status))        \
    X(MPI_File_write_all,                                                                          \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status))        \
    X(MPI_File_write_all_begin, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype))  \
    X(MPI_File_write_all_end, (MPI_File fh, const void *buf, MPI_Status *status))                  \
    X(MPI_File_write_at, (MPI_File fh, MPI_Offset offset, const void *buf, int count,              \
                          MPI_Datatype datatype, MPI_Status *status))                              \
    X(MPI_File_write_at_all, (MPI_File fh, MPI_Offset offset, const void *buf, int count,          \
                              MPI_Datatype datatype, MPI_Status *status))                          \
    X(MPI_File_write_at_all_begin,                                                                 \
      (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype))         \
    X(MPI_File_write_at_all_end, (MPI_File fh, const void *buf, MPI_Status *status))               \
    X(MPI_File_write_ordered,                                                                      \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status))        \
    X(MPI_File_write_ordered_begin,                                                                \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype))                            \
    X(MPI_File_write_ordered_end, (MPI_File fh, const void *buf, MPI_Status *status))              \
    X(MPI_File_write_shared,                                                                       \
      (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status))        \
    X(MPI_Register_datarep,                                                                        \
      (const char *datarep, MPI_Datarep_conversion_function *read_conversion_fn,                   \
       MPI_Datarep_conversion_function *write_conversion_fn,                                       \
       MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state))

// The tool information interface.
#define LS_MPI_ABSENT_TOOLS(X)                                                                     \
    X(MPI_T_category_changed)                                                                      \
    X(MPI_T_category_get_categories)                                                               \
    X(MPI_T_category_get_cvars)                                                                    \
    X(MPI_T_category_get_index)                                                                    \
    X(MPI_T_category_get_info)                                                                     \
    X(MPI_T_category_get_num)                                                                      \
    X(MPI_T_category_get_pvars)                                                                    \
    X(MPI_T_cvar_get_index)                                                                        \
    X(MPI_T_cvar_get_info)                                                                         \
    X(MPI_T_cvar_get_num)                                                                          \
    X(MPI_T_cvar_handle_alloc)                                                                     \
    X(MPI_T_cvar_handle_free)                                                                      \
    X(MPI_T_cvar_read)                                                                             \
    X(MPI_T_cvar_write)                                                                            \
    X(MPI_T_enum_get_info)                                                                         \
    X(MPI_T_enum_get_item)                                                                         \
    X(MPI_T_finalize)                                                                              \
    X(MPI_T_init_thread)                                                                           \
    X(MPI_T_pvar_get_index)                                                                        \
    X(MPI_T_pvar_get_info)                                                                         \
    X(MPI_T_pvar_get_num)                                                                          \
    X(MPI_T_pvar_handle_alloc)                                                                     \
    X(MPI_T_pvar_handle_free)                                                                      \
    X(MPI_T_pvar_read)                                                                             \
    X(MPI_T_pvar_readreset)                                                                        \
    X(MPI_T_pvar_reset)                                                                            \
    X(MPI_T_pvar_session_create)                                                                   \
    X(MPI_T_pvar_session_free)                                                                     \
    X(MPI_T_pvar_start)                                                                            \
    X(MPI_T_pvar_stop)                                                                             \
    X(MPI_T_pvar_write)

// Dynamic processes.
#define LS_MPI_ABSENT_PROCESSES(X)                                                                 \
    X(MPI_Close_port)                                                                              \
    X(MPI_Comm_accept)                                                                             \
    X(MPI_Comm_connect)                                                                            \
    X(MPI_Comm_join)                                                                               \
    X(MPI_Comm_spawn)                                                                              \
    X(MPI_Comm_spawn_multiple)                                                                     \
    X(MPI_Lookup_name)                                                                             \
    X(MPI_Open_port)                                                                               \
    X(MPI_Publish_name)                                                                            \
    X(MPI_Unpublish_name)

// Fortran's types by their range.
#define LS_MPI_ABSENT_FORTRAN(X)                                                                   \
    X(MPI_Type_create_f90_complex)                                                                 \
    X(MPI_Type_create_f90_integer)                                                                 \
    X(MPI_Type_create_f90_real)

#define LS_MPI_ABSENT_FILE(name, parameters)                                                       \
    int name parameters;                                                                           \
    int P##name parameters;
LS_MPI_ABSENT_FILES(LS_MPI_ABSENT_FILE, LS_MPI_ABSENT_FILE, LS_MPI_ABSENT_FILE)

#ifndef LS_MPI_ABSENT_DEFINED
#ifdef __cplusplus
#define LS_MPI_ABSENT(name) int name(...), P##name(...);
#else
#define LS_MPI_ABSENT(name) int name(), P##name();
#endif
LS_MPI_ABSENT_TOOLS(LS_MPI_ABSENT)
LS_MPI_ABSENT_PROCESSES(LS_MPI_ABSENT)
LS_MPI_ABSENT_FORTRAN(LS_MPI_ABSENT)
#endif
#endif
