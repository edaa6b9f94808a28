# Libraries the simulator itself needs. docs/dependencies.md says what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
add_library(lockstep_dependencies INTERFACE)
target_link_libraries(lockstep_dependencies INTERFACE
    PkgConfig::YAML PkgConfig::JANSSON Threads::Threads m ${CMAKE_DL_LIBS})

if(LOCKSTEP_TESTS)
    pkg_check_modules(CRITERION REQUIRED IMPORTED_TARGET criterion)
endif()
