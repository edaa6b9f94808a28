# cmake --install, find_package(lockstep), pkg-config lockstep, and cpack.
include(CMakePackageConfigHelpers)

set(rooms base formats kernels local_tensor orders collectives backends backends/mpi backends/nccl
    backends/sim ranks planner embedding runner runner/compare runner/launch runner/plan
    runner/program runner/replay runner/scenario runner/trace report)
set(LOCKSTEP_PUBLIC_HEADERS "")
foreach(room IN LISTS rooms)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
        "${PROJECT_SOURCE_DIR}/${room}/*.h")
    list(FILTER headers EXCLUDE REGEX "(_|/)internal\\.h$")
    list(APPEND LOCKSTEP_PUBLIC_HEADERS ${headers})
    foreach(header IN LISTS headers)
        install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep/${room}")
    endforeach()
endforeach()
if(EXISTS "${PROJECT_SOURCE_DIR}/lockstep.h")
    list(APPEND LOCKSTEP_PUBLIC_HEADERS lockstep.h)
    install(FILES lockstep.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")
endif()

target_include_directories(lockstep_shared INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lockstep>")
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
# From the folder of lockstep.pc up to the prefix, so that the package may be moved.
file(RELATIVE_PATH LOCKSTEP_PC_UP "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/lockstep.pc.in "${PROJECT_BINARY_DIR}/lockstep.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lockstep.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET lockstep)
    install(TARGETS lockstep)
    foreach(program lockstep-mpi lockstep-cuda)
        if(TARGET ${program})
            install(TARGETS ${program})
        endif()
    endforeach()
    # The man page and the completion come from the program's own option tables, the editors' schema
    # from the table of all keys.
    add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/lockstep.1" "${PROJECT_BINARY_DIR}/lockstep.bash"
        "${PROJECT_BINARY_DIR}/scenario.schema.json"
        COMMAND lockstep --man-page > "${PROJECT_BINARY_DIR}/lockstep.1"
        COMMAND lockstep --completion > "${PROJECT_BINARY_DIR}/lockstep.bash"
        COMMAND lockstep run --json-schema > "${PROJECT_BINARY_DIR}/scenario.schema.json"
        DEPENDS lockstep VERBATIM)
    add_custom_target(lockstep_pages ALL DEPENDS "${PROJECT_BINARY_DIR}/lockstep.1"
        "${PROJECT_BINARY_DIR}/lockstep.bash" "${PROJECT_BINARY_DIR}/scenario.schema.json")
    install(FILES "${PROJECT_BINARY_DIR}/lockstep.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
    install(FILES "${PROJECT_BINARY_DIR}/lockstep.bash" RENAME lockstep
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${PROJECT_BINARY_DIR}/scenario.schema.json"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep")
endif()
install(FILES README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_CONTACT "lockstep maintainers <lockstep@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
find_program(LOCKSTEP_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(LOCKSTEP_SHLIBDEPS)
if(LOCKSTEP_SHLIBDEPS)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
