/* See help_texts.h. */
#include "show/help_texts.h"

const char hri_help_eval[] =
    "CHECKPOINT is the directory of a run (its best parameters are used, or else its last) "
    "or a file in it. The samples go through the same stages as in that run's validation. "
    "Parameters without a run (of another program) are given as --model NAME --weights FILE; their "
    "classes are numbered, in the order of the data's. "
    "Classes are matched by name: the data may have fewer classes than the model, in any "
    "order.\n\nIf the run held out samples with --val-split, --split val evaluates on those, "
    "given the same --data; loss and accuracy are then those of the run. Without it all "
    "samples are used, including those the model was trained on.\n\nThe evaluation is "
    "planned like a training run: the budget covers everything that the system reports for "
    "the process, and it is checked before the first sample. With --batch auto the batch is "
    "the largest power of two up to 64 that fits; it affects speed only.\n\nLoss, accuracy "
    "and top-5 are means over all labels that are not negative; precision, recall, f1 (Dice), "
    "iou "
    "and auc are means over classes; mae, rmse and r2 are those of numbers, perplexity that of "
    "text. The table shows "
    "the classes "
    "with the most errors. The exit code is 1 if it does not fit, 2 if a sample cannot be "
    "read and --skip-bad is not given.";

const char hri_help_predict[] =
    "Classifies images with a trained model. CHECKPOINT is the directory of a run or a file "
    "in it; --model NAME --weights FILE stand for one where there is no run, and classes are "
    "then numbered. PATH is a folder (all images in and below it), one or more files, or - for "
    "standard input: an image, or a list of paths, one per line. A source such as npy:X.npy "
    "works, too; its samples are numbered from 0.\n\nPrints CSV with a header: path, class, "
    "probability, and with --top K further pairs class_2, probability_2 and so on; where a "
    "sample may have several labels, path and the probability of each. With "
    "--json it is one object whose predictions are {\"path\", \"classes\": [{\"name\", "
    "\"probability\"}]}. Class names come from the checkpoint. Output is printed batch by "
    "batch, so any number of images needs the memory of one batch.\n\nA model that predicts "
    "masks needs --out DIR: NAME.png has the classes in the size of the image, with a palette, "
    "NAME-overlay.png their colours over it; CSV and JSON have the share of each class.\n\nThe "
    "job is planned "
    "like a training run and stays within --budget; the exit code is 1 if it does not fit. "
    "An image that cannot be read ends it with exit code 2, after the predictions before it; "
    "with --skip-bad it is named on stderr and skipped.";

const char hri_help_generate[] =
    "Continues --prompt with a trained model that predicts the next token, and prints the "
    "text as it is written. CHECKPOINT is the directory of a run or a file in it.\n\nThe "
    "same options and seed give the same text. When a text becomes longer than the "
    "model's context, its later half is kept.\n\nGeneration is planned like a training "
    "run, the cache of keys and values included, and stays within --budget; the exit code "
    "is 1 if it does not fit.";

const char hri_help_data[] =
    "A pipeline is a source followed by stages, joined by '|' in one argument or given as "
    "one argument each: images:DIR, mnist:DIR, cifar10:DIR, npy:FILE, text:FILE, texts:DIR, "
    "tokens:FILE, "
    "tfrecord:FILE, csv:FILE, lines:FILE, synthetic; shuffle, decode, resize, crop, flip, "
    "rotate, jitter, normalise, batch, cache, repeat, take, skip, shard, zip, interleave, "
    "filter, limit, prefetch. --stages lists them all; --stages NAME shows one with its "
    "options.\n\nThe pipeline is built within --budget, as in a training run. If its "
    "smallest working set does not fit, it is refused with the stage that needs most, and "
    "the exit code is 1.\n\nWithout --bench the first elements are shown: fields, types, "
    "shapes, first numbers. With --bench the pipeline runs, and every stage is shown with "
    "its time, its memory and the tuner's choices. --png writes the images of the first "
    "element, or of the first batch as one sheet.";

const char hri_help_train[] =
    "Trains MODEL (name[:key=value,...], a file, or one line 'net: conv(32,3) | relu | ...') "
    "on "
    "--data. The budget covers everything that the "
    "system reports for the process: on the host its resident memory, input pipeline "
    "included. The plan is made and checked before the first step; if nothing fits, nothing "
    "is run, alternatives that fit are shown, and the exit code is 1. The number of classes, "
    "and the image size if all images have the same, are taken from the data unless the "
    "model string gives them.\n\nLosses depend on model, data, options and seed only: not on "
    "the number of threads, not on recomputation for a smaller budget, not on stopping and "
    "resuming. --micro-batches splits a batch (gradients are weighted by labels; clipping, "
    "weight decay and learning rate apply once per step). A model with batch norm is not "
    "split unless --ghost-norm allows it. --accumulate K makes one step of K batches.\n\nIn "
    "the directory --out, last.safetensors has everything needed to resume (--resume), and "
    "best.safetensors has the parameters of the best validation, for other programs, too. "
    "Both are replaced atomically. Ctrl-C saves and stops; a second one kills. --also trains "
    "a second model, alternating in the same arena: parameters of both, activations of the "
    "larger.\n\nThe exit code is 0 when training is done, 1 if it does not fit or was "
    "stopped, 2 for a usage error or bad data, 3 for a runtime failure, including a loss "
    "that is not a number.";

const char hri_help_run[] =
    "Starts PROGRAM with a library loaded into it that counts its GPU memory, however the "
    "program allocates it, and refuses allocations above the budget with the driver's own "
    "out-of-memory error. To the program, the budget is the size of the GPU. The budget covers "
    "the program and all processes it starts, and everything that NVML reports for them, "
    "including contexts and libraries.\n\nThe budget is reserved before the program starts, so "
    "that it is there when it is needed. If the GPU does not have that much left, headroom run "
    "says who holds it, or waits its turn (--wait). With --overcommit nothing is reserved, and "
    "programs wait for one another while they run.\n\nWith --spill, what does not fit in the "
    "budget is placed in host memory that the GPU reads over the bus: slower, but it runs. It "
    "moves to the GPU, at the same address, as soon as there is room.\n\n--ram limits host "
    "memory: with a cgroup where this user can create one, otherwise by watching the "
    "processes and killing the largest one when they exceed the limit. Without a GPU, --ram "
    "alone works with any program.\n\nThe limit is cooperative: a program that "
    "is statically linked, runs as another user or talks to the driver directly cannot be "
    "limited. headroom run refuses such programs where it can recognise them. The exit code is "
    "that of the program; 1 if the memory was not available, 2 if the program cannot be "
    "limited, and 128 plus the signal number if a signal killed it.";

const char hri_help_report[] =
    "Shows a recording (.hrp, written by plan --record and profile), a PyTorch memory snapshot "
    "or "
    "an XLA buffer assignment: the verdict, the bytes at the peak as "
    "a sum that adds up, everything alive at the peak, and time by layer and by kind of op. "
    "With --html it also writes a page: one file that needs no network, with memory over the "
    "step, the address map, tables that can be sorted and filtered, and the cost of other "
    "budgets. A truncated file shows what it has.\n\n"
    "--trace, --csv and --tensorboard write the same for other programs; --json prints it "
    "whole.";

const char hri_help_find_rate[] =
    "Trains MODEL for a few steps (--steps, by default 100) while the learning rate rises by the "
    "same factor in each step, from --rate (1e-7) to --final-rate (10). "
    " Losses are averaged as they come. Where the average falls fastest is "
    "a learning rate to begin with; it is worth a look at the chart of --svg. The test stops early "
    "when the loss grows to four times its least or is no longer a number.\n\nData, batch, budget, "
    "optimizer and everything else are given as for train. Nothing is saved and nothing is "
    "validated; schedules and checkpoints do not apply.\n\nThe exit code is 0 when the test is "
    "done, 1 "
    "if it does not fit, 2 for a usage error or bad data, 3 for a runtime failure.";

const char hri_help_devices[] =
    "Prints one line per device, in the order in which Headroom uses them, or only those "
    "named. TOTAL is the device's memory (on the host, the memory of the machine or of its "
    "cgroup, whichever is less), FREE is what is available now, OURS is what the system "
    "reports for this process, OTHERS is what all other processes use. TOTAL is the sum of "
    "the three.\n\nRUNTIME is the memory used before any tensor exists (context, libraries). "
    "It is known once the device is open. Opening a GPU uses memory, so it is done only with "
    "--measure. LIMITS is the sum of the limits of this process's logical devices.\n\nA "
    "device that does not respond or cannot be opened is shown with the reason, and the exit "
    "code is 1.";

const char hri_help_diff[] =
    "Compares two recordings (.hrp): what grew at the peak, which layers and kinds of ops "
    "take more time, and which buffers grew, moved, are new or gone. Measured bytes and "
    "times are used where a recording has them, planned ones otherwise; so a plan can be "
    "compared with the profile of its run.";

const char hri_help_doctor[] =
    "Shows the machine, the libraries found with their versions, the missing ones with the "
    "features they disable, and every setting with its value and origin (default, "
    "environment, flag).\n\nThe checks are real: on every device (or on those named) a page "
    "is mapped, and a block is copied there and back and compared, also through pinned "
    "memory; the cache directory is written to. Everything is cleaned up. The exit code is 1 "
    "if a check failed. The output is meant to be pasted into bug reports.";

const char hri_help_limit[] =
    "JOB is the number shown by headroom top. A higher budget takes effect at once, "
    "provided that the GPU has that much left. A lower one applies to all further "
    "allocations; memory that the program already holds is not taken away.";

const char hri_help_pack[] =
    "Reads buffers from CSV with the columns id, lower, upper and size (a buffer is live for "
    "lower <= t < upper), finds an offset for each such that no two live buffers overlap, "
    "and prints CSV with the columns id and offset. The height, the lower bound (the most "
    "bytes live at one moment) and the gap between them go to stderr.\n\nThe same input "
    "gives the same packing on every machine: effort is counted in steps, not in seconds. "
    "The exit code is 1 if a capacity was given and the height exceeds it.";

const char hri_help_plan[] =
    "Plans one training step of MODEL (name[:key=value,...], a file, or one line 'net: "
    "conv(32,3) | "
    "relu | ...') for a batch within a budget: "
    "what runs when, what is recomputed, where every byte goes. The plan must pass a checker "
    "that shares no code with the planner. The budget covers everything that the system "
    "reports for the process: resident memory on the host, driver-reported memory on a "
    "GPU.\n\nTIME is the predicted step time relative to unconstrained training, from ops "
    "timed on this device (cached) or, with --no-measure, from an analytic model. Timings "
    "decide which plan is chosen, never whether one fits. The batch is split into "
    "micro-batches only if no op depends on the whole batch, unless --ghost-norm allows it. "
    "RECOMPUTED counts ops that run more than once. Unconstrained training keeps every value "
    "until its last use.\n\nWith --val-data or --val-split validation is planned into the same "
    "arena, and with --data the input pipeline is included: the plan is then the one that "
    "train makes. On the host, synthetic data is assumed where none is named, so that train "
    "accepts the minimum that is shown; --save, --load, --compare and --save-problem have the "
    "step alone.\n\nThe exit code is 0 if it fits and 1 if it does not; then the op "
    "that sets the minimum, the missing bytes and alternatives that fit are shown.";

const char hri_help_profile[] =
    "Plans MODEL, trains it for a few steps on synthetic data, then runs one more step op by "
    "op: each op with its time, arithmetic, traffic and share of the device's ceilings, "
    "and memory as the system reports it, next to what was planned. The parts add up to "
    "the measured peak; what has no owner is shown as unattributed.\n\nOn a GPU a step is "
    "otherwise one captured graph, so the op-by-op step is slower than the timed ones.";

const char hri_help_summary[] =
    "Prints one line per layer of MODEL (a name, a model file, or a "
    "network in one line): output type and shape, "
    "parameters, floating-point operations of the forward pass, and KEPT, the bytes that "
    "the backward pass reads and that training keeps if nothing is recomputed. The sums "
    "are those of headroom plan for the same model, batch and options.";

const char hri_help_tokenize[] =
    "Writes the tokens of one or more text files to --out, which --data tokens:FILE "
    "reads (add type=u32 if it says u32). Files are processed piece by piece, so any size "
    "needs a few MiB. Special tokens are found in the text and none is added. With --train, "
    "--out is a tokenizer.json for --tokenizer: a byte-level BPE of that many tokens, with "
    "<|endoftext|> and the 256 bytes among them.";

const char hri_help_top[] =
    "Lists the GPUs, with their free memory and the memory held by programs that do not "
    "run under headroom run, and your jobs with their processes: how much each holds "
    "(context included), how much it may allocate without asking again, its budget, and "
    "whether it is running or waiting, and for how long. On a terminal the display is updated "
    "every second and has keys: arrows select a job, l changes its budget, k ends it, K "
    "kills it (each asks first), s sorts by another column, q quits.";

const char hri_help_why[] =
    "Shows what the program tried to allocate, through which function and from where, what "
    "it held at the time by size, why the allocation was refused, and a budget that would "
    "have been enough. Without JOB, shows the latest refusal of any program. The program "
    "keeps this record while it runs; it survives even if the program is killed. Records "
    "of the last jobs are kept.";
