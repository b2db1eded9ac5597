/* A llama with LoRA adapters speaks: the run with its adapters, and the file that they were merged into, say the same tokens. */
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

#define LLAMA "llama-nano:layers=1 --data text:%s,length=32,stride=11 --batch 8 --seed 3 "

static void write_lines(const char *name, const char *line) {
    FILE *f = fopen(in(name), "w");
    CHECK(f);
    for (int i = 0; i < 120; i++) {
        CHECK(fputs(line, f) >= 0);
    }
    CHECK(fclose(f) == 0);
}

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

/* The tokens as JSON, into `out`. */
static void say(const char *arguments, char *out, size_t size) {
    program_outcome o = call(arguments);
    CHECK_EQ(o.code, 0);
    const char *from = strstr(o.out, "\"tokens\":");
    const char *to = from ? strchr(from, ']') : NULL;
    CHECK(to && (size_t)(to - from) < size);
    snprintf(out, size, "%.*s", (int)(to - from), from);
    program_end(&o);
}

TEST_TIMEOUT(tasks, a_llama_with_adapters_says_the_same_merged_and_not_merged, 120) {
    char command[512], base[2048], run_says[2048], merged[2048], plain[2048];
    write_lines("a.txt", "the owl and the cat went to sea in a boat.\n");
    write_lines("b.txt", "the owl was sad and sang to the small moon.\n");
    snprintf(command, sizeof command, LLAMA "--optimizer adamw --rate 0.005 --epochs 2 --out base",
             "a.txt");
    program_outcome o = run_well(command);
    program_end(&o);
    snprintf(command, sizeof command,
             LLAMA "--optimizer adamw --rate 0.02 --epochs 2 --init base/last.safetensors "
                   "--lora rank=4,alpha=8 --out tuned",
             "b.txt");
    o = run_well(command);
    program_end(&o);
    o = call("merge tuned -o merged.safetensors");
    CHECK_EQ(o.code, 0);
    program_end(&o);
#define SAY " --prompt 'the owl' --temperature 0 --max 60 --json"
    say("generate base" SAY, base, sizeof base);
    say("generate tuned" SAY, run_says, sizeof run_says);
    say("generate merged.safetensors" SAY, merged, sizeof merged);
    say("generate merged.safetensors --no-cache" SAY, plain, sizeof plain);
    CHECK_STR(merged, run_says);
    CHECK_STR(plain, run_says);
    CHECK(strcmp(base, run_says) != 0); /* the adapters do say something */
}
