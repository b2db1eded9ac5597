# Addresses that only need the place where a program is loaded added (tables of ops, commands, texts: tens of thousands) are
# listed as a bit map instead of 24 bytes each, where the C library of this machine can read that (glibc 2.36).  A page of such a
# list is resident in every process.  Not in wheels, which run on older ones.
include(CheckCSourceRuns)
set(relative_option "-Wl,-z,pack-relative-relocs")
if(NOT HEADROOM_BUNDLE AND NOT CMAKE_CROSSCOMPILING)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${relative_option})
  check_c_source_runs("static int x = 42; static int *const volatile all[] = {&x, &x, &x}; int main(void) { return *all[1] != 42; }"
    HEADROOM_RELATIVE)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(HEADROOM_RELATIVE)
    add_link_options(${relative_option})
  endif()
endif()
