# Helpers that register tests with CTest.
set(LOCKSTEP_TEST_ENVIRONMENT
    "ASAN_OPTIONS=abort_on_error=1:detect_leaks=1"
    "UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1"
    "TSAN_OPTIONS=halt_on_error=1"
    "LOCKSTEP_SOURCE=${PROJECT_SOURCE_DIR}")

# lockstep_unit_test(NAME SOURCE...): a Criterion binary unit_NAME, CTest entry unit/NAME. Criterion
# exits 0 when nothing ran, so "Tested: 0" fails. Skipped under TSan, which Criterion cannot run.
function(lockstep_unit_test name)
    if(LOCKSTEP_SANITIZE MATCHES "thread")
        return()
    endif()
    add_executable(unit_${name} ${ARGN})
    target_link_libraries(unit_${name} PRIVATE lockstep_static PkgConfig::CRITERION)
    target_compile_options(unit_${name} PRIVATE -Wno-conversion -Wno-pedantic)
    set(jobs -j2)
    if(LOCKSTEP_SANITIZE)
        set(jobs -j1)  # with two, Criterion's runner at times leaks memory of its own
    endif()
    add_test(NAME unit/${name} COMMAND unit_${name} ${jobs})
    set_tests_properties(unit/${name} PROPERTIES LABELS unit
        FAIL_REGULAR_EXPRESSION "Tested: 0" ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT}")
endfunction()

# lockstep_stress_test(NAME SOURCE...): a plain-main program, CTest entry stress/NAME; also under
# TSan. It fails by its exit code.
add_custom_target(stress)  # all that the thread sanitizer's tests need
function(lockstep_stress_test name)
    add_executable(stress_${name} ${ARGN})
    add_dependencies(stress stress_${name})
    target_link_libraries(stress_${name} PRIVATE lockstep_rooms)
    add_test(NAME stress/${name} COMMAND stress_${name})
    set_tests_properties(stress/${name} PROPERTIES LABELS stress
        ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT}")
endfunction()

# lockstep_memcheck_test(NAME): stress_NAME again under valgrind, CTest entry memcheck/NAME. A leak or
# an invalid access fails it, by valgrind's own exit code and by what it prints.
find_program(LOCKSTEP_VALGRIND valgrind)
set(LOCKSTEP_MEMCHECK ${LOCKSTEP_VALGRIND} --error-exitcode=9 --leak-check=full
    --show-leak-kinds=definite,indirect,possible --errors-for-leak-kinds=definite,indirect,possible)
function(lockstep_memcheck_test name)
    if(LOCKSTEP_SANITIZE OR NOT LOCKSTEP_VALGRIND)
        return()
    endif()
    add_test(NAME memcheck/${name} COMMAND ${LOCKSTEP_MEMCHECK} $<TARGET_FILE:stress_${name}>)
    set_tests_properties(memcheck/${name} PROPERTIES LABELS memcheck COST 50
        FAIL_REGULAR_EXPRESSION "definitely lost: [1-9];Invalid (read|write)"
        ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT}")
endfunction()

# lockstep_memcheck_must_fail(NAME SOURCE): a program with an injected mistake, under the same command,
# CTest entry memcheck/NAME. It passes only when valgrind names the leak and exits with its own code.
function(lockstep_memcheck_must_fail name source)
    if(LOCKSTEP_SANITIZE OR NOT LOCKSTEP_VALGRIND)
        return()
    endif()
    add_executable(${name} ${source})
    add_test(NAME memcheck/${name} COMMAND sh -c "\"$@\" 2>&1; echo exit code $?" sh
        ${LOCKSTEP_MEMCHECK} $<TARGET_FILE:${name}>)
    set_tests_properties(memcheck/${name} PROPERTIES LABELS memcheck
        PASS_REGULAR_EXPRESSION "4,096 bytes in 1 blocks are definitely lost.*exit code 9")
endfunction()

# lockstep_counts_memory(NAME): unit_NAME may count what its code takes, and let it fail.
function(lockstep_counts_memory name)
    if(TARGET unit_${name})
        target_sources(unit_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/counting.c")
        foreach(function malloc calloc realloc aligned_alloc free)
            target_link_options(unit_${name} PRIVATE LINKER:--wrap=${function})
        endforeach()
    endif()
endfunction()

# lockstep_torch_test(NAME PACKAGES SCRIPT ARGUMENT...): a script of this folder that needs packages
# of Python ("torch,torchrec"); skipped, with what to do, where they are not.
find_program(LOCKSTEP_PYTHON NAMES python3 REQUIRED)
set(LOCKSTEP_TORCH_PYTHON "$ENV{LOCKSTEP_TORCH_PYTHON}" CACHE FILEPATH
    "The Python of tests that need torch or torchrec (ctest -L torch), where that is not python3")
function(lockstep_torch_test name packages script)
    set(python "${LOCKSTEP_TORCH_PYTHON}")
    if(NOT python)
        set(python "${LOCKSTEP_PYTHON}")
    endif()
    add_test(NAME ${name} COMMAND ${python} "${PROJECT_SOURCE_DIR}/tests/with_torch.py" ${packages}
        "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARGN})
    get_filename_component(label ${name} DIRECTORY)
    # Each starts processes that import torch, for minutes: they begin first.
    set_tests_properties(${name} PROPERTIES LABELS "${label};torch" SKIP_RETURN_CODE 77
        PROCESSORS 2 COST 100 ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT}")
endfunction()
