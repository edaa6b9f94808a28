# One object library per folder, and the libraries that gather them.
set_property(GLOBAL PROPERTY LOCKSTEP_OBJECTS "")

# lockstep_folders(NAME...): adds those that have a CMakeLists.txt, in order.
function(lockstep_folders)
    foreach(folder IN LISTS ARGN)
        if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt")
            add_subdirectory("${PROJECT_SOURCE_DIR}/${folder}")
        endif()
    endforeach()
endfunction()

# lockstep_folder(NAME SUBFOLDER...): the sources of a folder and of those in it, part of
# liblockstep.
function(lockstep_folder name)
    list(TRANSFORM ARGN APPEND "/*.c")
    file(GLOB sources CONFIGURE_DEPENDS *.c ${ARGN})
    add_library(ls_${name} OBJECT ${sources})
    target_link_libraries(ls_${name} PUBLIC lockstep_compile lockstep_dependencies)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_OBJECTS ls_${name})
endfunction()

# liblockstep.a for the program and the tests, liblockstep.so for users.
function(lockstep_libraries)
    get_property(folders GLOBAL PROPERTY LOCKSTEP_OBJECTS)
    set(objects "")
    foreach(folder IN LISTS folders)
        list(APPEND objects $<TARGET_OBJECTS:${folder}>)
    endforeach()
    add_library(lockstep_static STATIC ${objects})
    set_target_properties(lockstep_static PROPERTIES OUTPUT_NAME lockstep)
    target_link_libraries(lockstep_static PUBLIC lockstep_compile lockstep_dependencies)
    add_library(lockstep_shared SHARED ${objects})
    set_target_properties(lockstep_shared PROPERTIES OUTPUT_NAME lockstep
        VERSION ${PROJECT_VERSION} SOVERSION 0)
    target_link_libraries(lockstep_shared PRIVATE lockstep_compile lockstep_dependencies)
    if(NOT LOCKSTEP_SANITIZE)  # a sanitizer's symbols come with the program
        target_link_options(lockstep_shared PRIVATE LINKER:--no-undefined)
    endif()
    # The rooms below the runner, for programs that run no scenario.
    list(FILTER objects EXCLUDE REGEX "ls_(runner|report)>")
    add_library(lockstep_rooms STATIC EXCLUDE_FROM_ALL ${objects})
    target_link_libraries(lockstep_rooms PUBLIC lockstep_compile lockstep_dependencies)
endfunction()
