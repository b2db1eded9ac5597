/* headroom run --record: allocations of other programs, with call, thread, stack and line of Python, as the report shows them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "govern.h"
#include "test.h"

static json_t *report(govern_world *w, const char *file) {
    json_error_t error;
    govern_shell(w, "$HEADROOM report %s --json", file);
    CHECK_EQ(w->code, 0);
    json_t *root = json_loads(w->out, 0, &error);
    CHECK(root != NULL);
    return root;
}

static const char *text(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static long long number(const json_t *row, const char *key) {
    return (long long)json_number_value(json_object_get(row, key));
}

TEST(record, every_allocation_has_its_call_and_its_life) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_run(&w, "--budget 1GiB --record run.rec", "dlsym",
               "alloc:500M free alloc:100M async:64M unasync free");
    CHECK_EQ(w.code, 0);
    json_t *r = report(&w, "run.rec"), *row;
    size_t i;
    const long long sizes[] = {500ll << 20, 100ll << 20, 64ll << 20};
    const char *const calls[] = {"cuMemAlloc_v2",   "cuMemFree_v2",   "cuMemAlloc_v2",
                                 "cuMemAllocAsync", "cuMemFreeAsync", "cuMemFree_v2"};
    CHECK_STR(text(r, "source"), "program");
    CHECK_STR(text(r, "model"), "govern_caller");
    CHECK_EQ(number(r, "peak_bytes"), sizes[0]);
    CHECK_EQ(json_array_size(json_object_get(r, "buffers")), 3);
    json_array_foreach(json_object_get(r, "buffers"), i, row) {
        CHECK_EQ(number(row, "bytes"), sizes[i]);
        CHECK(strstr(text(row, "source"), "in govern_caller") &&
              strstr(text(row, "source"), "in libc.so")); /* down to main and who called it */
        CHECK(number(row, "death") <= 6 && number(row, "birth") < number(row, "death"));
    }
    CHECK_EQ(json_array_size(json_object_get(r, "ops")), 6);
    json_array_foreach(json_object_get(r, "ops"), i, row) {
        CHECK_STR(text(row, "kind"), calls[i]);
        CHECK(!strncmp(text(row, "layer"), "thread ", 7));
    }
    json_decref(r);
    govern_end(&w);
}

TEST(record, a_program_that_is_killed_leaves_what_it_did) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(&w, "$HEADROOM run --budget 1GiB --record run.rec -- sh -c '$CALLER dlsym "
                     "alloc:300M alloc:100M; cd /; kill -9 $$'");
    json_t *r = report(&w, "run.rec");
    CHECK_EQ(number(r, "peak_bytes"), 400ll << 20);
    json_decref(r);
    govern_shell(&w, "head -c -5 run.rec > cut.rec");
    r = report(&w, "cut.rec");
    CHECK(json_is_true(json_object_get(r, "truncated")));
    CHECK_EQ(number(r, "peak_bytes"), 300ll << 20);
    json_decref(r);
    govern_end(&w);
}

/* An interpreter that keeps its lock during the call, as most extensions do. */
TEST(record, a_line_of_python_where_frames_can_be_walked) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(&w, "python3 -c 'import ctypes' 2>/dev/null");
    if (w.code != 0) {
        govern_end(&w);
        test_skip("no python3 with ctypes");
    }
    govern_shell(&w, "printf '%%s\\n' 'import ctypes' 'cuda = ctypes.PyDLL(\"libcuda.so.1\")' "
                     "'def buffers(size):' '    at = ctypes.c_uint64()' "
                     "'    return cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))' "
                     "'context = ctypes.c_void_p()' 'cuda.cuInit(0)' "
                     "'cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)' "
                     "'cuda.cuCtxSetCurrent(context)' 'assert buffers(3 << 20) == 0' > my.py; "
                     "$HEADROOM run --budget 1GiB --record py.rec -- python3 my.py");
    CHECK_EQ(w.code, 0);
    json_t *r = report(&w, "py.rec");
    const json_t *row = json_array_get(json_object_get(r, "buffers"), 0);
    CHECK_STR(text(row, "name"), "my.py:5 buffers");
    CHECK(strstr(text(row, "source"), "my.py:10 <module>"));
    json_decref(r);
    govern_end(&w);
}
