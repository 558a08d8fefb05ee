# find_package(glog): glog::glog is the facade of Logdrive. Give CMake glog_DIR with this directory. With LOGDRIVE_GLOG_GFLAGS
# its flags are options of gflags.
include(CMakeFindDependencyMacro)
find_dependency(logdrive PATHS "${CMAKE_CURRENT_LIST_DIR}/../logdrive" NO_DEFAULT_PATH)
if(NOT TARGET glog::glog)
  add_library(glog::glog INTERFACE IMPORTED)
  if(LOGDRIVE_GLOG_GFLAGS)
    set_target_properties(glog::glog PROPERTIES INTERFACE_LINK_LIBRARIES logdrive::glog_gflags)
  else()
    set_target_properties(glog::glog PROPERTIES INTERFACE_LINK_LIBRARIES logdrive::glog)
  endif()
endif()
set(glog_FOUND TRUE)
