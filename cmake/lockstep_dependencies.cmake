# Everything that is linked comes from Debian's packages; packaging/dependencies.txt lists them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(GTest REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLiteCpp QUIET)
find_package(prometheus-cpp REQUIRED)
include(GoogleTest)

pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(LIBISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(IBVERBS REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(RDMACM REQUIRED IMPORTED_TARGET librdmacm)
pkg_check_modules(LIBISCSI REQUIRED IMPORTED_TARGET libiscsi)
find_library(SQLITECPP_LIBRARY SQLiteCpp REQUIRED)

# fmt and spdlog, made from their headers into the programs: each distribution has these two libraries under other names, and
# one package is to be good for several. spdlog's are included by mgmt/log alone.
add_library(lockstep_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/static/fmt.cpp)
target_compile_definitions(lockstep_fmt PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)

add_library(lockstep_asio INTERFACE)
target_link_libraries(lockstep_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(lockstep_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_BEAST_USE_STD_STRING_VIEW)
