# The front door to the CMake presets.  tools/build installs what is missing (tools/setup) and builds one preset.
PREFIX ?= /usr/local

all:      ; @tools/build release
demo:     ; @tools/build release all tools && tools/demo
test:     ; @tools/build dev && tools/run-tests build/dev
asan:     ; @tools/build asan && tools/test-asan
tsan:     ; @tools/build tsan test_unit test_property test_fault test_device test_cuda && tools/test-tsan
fuzz:     ; @tools/setup build fuzz && tools/build fuzz && tools/fuzz build/fuzz
docs:     ; @tools/build release && tools/docs build
bench:    ; @tools/build release benches && tools/bench
install:  ; @HEADROOM_PREFIX='$(PREFIX)' tools/build release && DESTDIR='$(DESTDIR)' cmake --install build
format:   ; @tools/setup check && tools/check-format --fix
check:    ; @tools/setup check && tools/check-format && tools/check-layers && tools/check-tags && tools/check-abi && tools/check-words && tools/check-size
clean:    ; @rm -rf build
.PHONY: all demo test asan tsan fuzz docs bench install format check clean
