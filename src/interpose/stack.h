/* Where a call of the program comes from: frames of native code, and lines of Python. */
#ifndef HRI_INTERPOSE_STACK_H
#define HRI_INTERPOSE_STACK_H

#include <stddef.h>

enum { HRI_STACK_NAME = 96 };

/* "name+0x1f in file", the innermost first, without our own frames; returns how many.  By frame pointers, only from this
 * thread's own stack: code without them ends the walk, nothing worse.  unwind: by the tables of the code, as a debugger does;
 * libc loads libgcc_s for it when it is first asked for, so only where the user wants stacks. */
int hri_stack_native(char (*out)[HRI_STACK_NAME], int most, int unwind);

/* "file.py:12 function" with ';' between, the innermost first, cut at `size`; "" when this thread does not run Python now: no
 * interpreter, or it does not hold the lock.  Only public functions of the interpreter are called, and none that runs code
 * of the program. */
void hri_stack_python(char *out, size_t size);

#endif
