# cmake --install, find_package(lockstep), pkg-config lockstep, and cpack.
include(CMakePackageConfigHelpers)
include(LockstepPublic)

# What is installed beside liblockstep: the backends that this build has.
set(LOCKSTEP_BACKENDS "")
foreach(backend mpi nccl)
    if(TARGET lockstep_${backend}_shared)
        list(APPEND LOCKSTEP_BACKENDS ${backend})
        string(TOUPPER ${backend} name)
        list(APPEND LOCKSTEP_PUBLIC_HEADERS ${LOCKSTEP_PUBLIC_HEADERS_${name}})
    endif()
endforeach()
if(LOCKSTEP_BACKENDS STREQUAL "mpi;nccl")
    list(APPEND LOCKSTEP_PUBLIC_HEADERS ${LOCKSTEP_PUBLIC_HEADERS_NCCL_MPI})
endif()
# Users get the headers without what is the library's own, and the manual made of those. Programs
# of the tree that stand for users' (examples/) compile against the same copies.
find_program(LOCKSTEP_PYTHON NAMES python3 REQUIRED)
set(public "${PROJECT_BINARY_DIR}/public")
set(manual "${PROJECT_BINARY_DIR}/man3")
set(tool "${LOCKSTEP_PYTHON}" "${PROJECT_SOURCE_DIR}/cmake/headers.py")
set(sources ${LOCKSTEP_PUBLIC_HEADERS})
list(TRANSFORM sources REPLACE "^base/version.h$" "${PROJECT_BINARY_DIR}/made/base/version.h")
add_custom_command(OUTPUT "${manual}/lockstep.3"
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${public}"
    COMMAND ${tool} public "${public}/lockstep" "${PROJECT_BINARY_DIR}/made"
        ${LOCKSTEP_PUBLIC_HEADERS}
    COMMAND "${CMAKE_COMMAND}" -E chdir "${public}/lockstep"
        ${tool} man "${manual}" "${PROJECT_VERSION}" ${LOCKSTEP_PUBLIC_HEADERS}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    DEPENDS ${sources} cmake/headers.py cmake/LockstepPublic.cmake VERBATIM)
add_custom_target(lockstep_public ALL DEPENDS "${manual}/lockstep.3")
install(DIRECTORY "${manual}" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(DIRECTORY "${public}/lockstep" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

target_include_directories(lockstep_shared INTERFACE
    "$<BUILD_INTERFACE:${public}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
add_dependencies(lockstep_shared lockstep_public)
set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep)
install(TARGETS lockstep_shared EXPORT lockstep)
install(TARGETS lockstep_static)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake
    DESTINATION "${package_folder}")
configure_package_config_file(cmake/lockstep-config.cmake.in
    "${PROJECT_BINARY_DIR}/lockstep-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstep-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstep-config.cmake"
    "${PROJECT_BINARY_DIR}/lockstep-config-version.cmake" DESTINATION "${package_folder}")
# From the folder of the .pc files up to the prefix, so that the package may be moved.
file(RELATIVE_PATH LOCKSTEP_PC_UP "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
function(lockstep_pkg_config name)
    configure_file("cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
lockstep_pkg_config(lockstep)
foreach(backend IN LISTS LOCKSTEP_BACKENDS)
    install(TARGETS lockstep_${backend}_shared EXPORT lockstep)
    lockstep_pkg_config(lockstep-${backend})
endforeach()

if(TARGET lockstep)
    install(TARGETS lockstep)
    foreach(program lockstep-mpi lockstep-cuda)
        if(TARGET ${program})
            install(TARGETS ${program})
        endif()
    endforeach()
    # The man page and the completions come from the program's own option tables, the editors' schema
    # from the table of all keys.
    set(pages "${PROJECT_BINARY_DIR}/pages")
    file(MAKE_DIRECTORY "${pages}" "${PROJECT_BINARY_DIR}/docs")
    add_custom_command(OUTPUT "${pages}/lockstep.1" "${pages}/lockstep.bash"
            "${pages}/lockstep.zsh" "${pages}/lockstep.fish" "${PROJECT_BINARY_DIR}/docs/scenario.schema.json"
        COMMAND lockstep --man-page > "${pages}/lockstep.1"
        COMMAND lockstep --completion bash > "${pages}/lockstep.bash"
        COMMAND lockstep --completion zsh > "${pages}/lockstep.zsh"
        COMMAND lockstep --completion fish > "${pages}/lockstep.fish"
        COMMAND lockstep run --json-schema > "${PROJECT_BINARY_DIR}/docs/scenario.schema.json"
        DEPENDS lockstep VERBATIM)
    set(manuals "${pages}/lockstep.1")
    # A page for each command that cli/commands.h lists.
    file(STRINGS cli/commands.h command_rows REGEX "^ +[xX]\\([a-z]+\\)")
    string(REGEX MATCHALL "[(][a-z]+[)]" commands "${command_rows}")
    string(REGEX REPLACE "[()]" "" commands "${commands}")
    list(REMOVE_ITEM commands rank)
    foreach(command IN LISTS commands)
        add_custom_command(OUTPUT "${pages}/lockstep-${command}.1"
            COMMAND lockstep --man-page ${command} > "${pages}/lockstep-${command}.1"
            DEPENDS lockstep VERBATIM)
        list(APPEND manuals "${pages}/lockstep-${command}.1")
    endforeach()
    add_custom_target(lockstep_pages ALL DEPENDS ${manuals})
    install(FILES ${manuals} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    install(FILES "${pages}/lockstep.bash" RENAME lockstep
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${pages}/lockstep.zsh" RENAME _lockstep
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${pages}/lockstep.fish"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
    install(FILES "${PROJECT_BINARY_DIR}/docs/scenario.schema.json"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
endif()

# The README's links and those between the pages lead where they do in the tree.
install(FILES README.md CHANGELOG.md LICENSE SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)  # Debian's name
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}"
    PATTERN "CMakeLists.txt" EXCLUDE PATTERN "*.py" EXCLUDE)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "the lockstep authors")
set(CPACK_PACKAGE_CONTACT "the lockstep authors <lockstep@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "lockstep runs programs of torch.distributed, NCCL and MPI, and scenario files of
sharded tables and tensors. It reports mismatched collectives, deadlocks, misused
buffers and wrong results with the rank and the source line.")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gcc)  # lockstep-cc calls it
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gdb, mpich, g++, python3")
# Without dpkg-shlibdeps and file, cpack fails instead of making a package without dependencies.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
