# How everything is compiled: C17, strict warnings, no value-changing floating-point options.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# Assertions of ours (LS_ASSERT) are always on; NDEBUG has no say in them.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
if(LOCKSTEP_SANITIZE)  # these compile in two thirds of the time; reports need lines alone
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")

add_library(lockstep_compile INTERFACE)
target_compile_definitions(lockstep_compile INTERFACE _POSIX_C_SOURCE=200809L)
target_include_directories(lockstep_compile INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/made>")
configure_file(base/version.h.in "${PROJECT_BINARY_DIR}/made/base/version.h" @ONLY)
# gcc 12 drops the rounding of two neighbouring (double)(float)x where it packs them into one vector
# (its SLP vectoriser, from -O2 on; loops are vectorised right): every bit here depends on it.
# tests/base/test_rounding.c fails where a compiler does so.
target_compile_options(lockstep_compile INTERFACE "$<$<COMPILE_LANGUAGE:C>:-fno-tree-slp-vectorize>")
target_compile_options(lockstep_compile INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow;-Wstrict-prototypes;-Wformat=2;-Wcast-align;-Werror=switch;-ffp-contract=off;-fno-omit-frame-pointer;-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
if(LOCKSTEP_WERROR)
    target_compile_options(lockstep_compile INTERFACE "$<$<COMPILE_LANGUAGE:C>:-Werror>")
endif()
if(LOCKSTEP_SANITIZE)
    target_compile_options(lockstep_compile INTERFACE
        "-fsanitize=${LOCKSTEP_SANITIZE}" -fno-sanitize-recover=all)
    target_link_options(lockstep_compile INTERFACE "-fsanitize=${LOCKSTEP_SANITIZE}")
endif()
if(LOCKSTEP_COVERAGE)
    # Users' programs link some objects (LINKED_BY_PROGRAMS) without the library of --coverage.
    target_compile_options(lockstep_compile INTERFACE
        "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:LINKED_BY_PROGRAMS>>>:--coverage;-fprofile-update=atomic>")
    target_link_options(lockstep_compile INTERFACE --coverage -fprofile-update=atomic)
endif()
