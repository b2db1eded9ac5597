"""libheadroom's structs, enumerators and functions as ctypes.  Written by tools/bindings from tests/abi/abi.txt; do not edit."""
# ruff: noqa
# mypy: ignore-errors
from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32,
                    c_uint64, c_void_p)

HR_OK = 0
HR_E_INVALID = -1
HR_E_NOMEM_HOST = -2
HR_E_NOMEM_DEVICE = -3
HR_E_LIMIT = -4
HR_E_RANGE = -5
HR_E_UNSUPPORTED = -6
HR_E_NOT_FOUND = -7
HR_E_EXISTS = -8
HR_E_BUSY = -9
HR_E_DEVICE = -10
HR_E_LOST = -11
HR_E_IO = -12
HR_E_FORMAT = -13
HR_E_EOF = -14
HR_E_CANCELLED = -15
HR_E_INTERNAL = -16
HR_E_SHAPE = -17
HR_E_NO_PLAN = -18
HR_E_AGAIN = -19
HR_E_PEER = -20
HR_LOG_ERROR = 0
HR_LOG_WARN = 1
HR_LOG_INFO = 2
HR_LOG_DEBUG = 3
HR_ERROR_HOLDERS = 5
HR_NAME_SIZE = 64
HR_CATEGORY_MAX = 16
HR_TORCH_DEVICES = 64
HR_RANK_MAX = 8
HR_ATTRIBUTE_TEXT = 208
HR_CUSTOM_INPUTS = 16
HR_CUSTOM_OUTPUTS = 6
HR_RUN_GRAPHS = 4
HR_FIELD_NAME_SIZE = 32
HR_FIELD_MAX = 64
HR_PRINT_COLOR = 256
HR_GROWTH_ON = 0
HR_GROWTH_OFF = 1
HR_CATEGORY_OTHER = 0
HR_CATEGORY_WEIGHTS = 1
HR_CATEGORY_GRADIENTS = 2
HR_CATEGORY_OPTIMIZER = 3
HR_CATEGORY_ACTIVATIONS = 4
HR_CATEGORY_WORKSPACE = 5
HR_CATEGORY_INPUT = 6
HR_CATEGORY_COUNT = 7
HR_EVENT_TICK = 0
HR_EVENT_STARTED = 1
HR_EVENT_STEP = 2
HR_EVENT_VALIDATED = 3
HR_EVENT_EPOCH = 4
HR_EVENT_SAVED = 5
HR_EVENT_SAVE_FAILED = 6
HR_EVENT_RESIZED = 7
HR_EVENT_BAD_SAMPLE = 8
HR_EVENT_WARNING = 9
HR_TYPE_F32 = 0
HR_TYPE_BF16 = 1
HR_TYPE_F16 = 2
HR_TYPE_I32 = 3
HR_TYPE_I64 = 4
HR_TYPE_U8 = 5
HR_TYPE_I8 = 6
HR_TYPE_COUNT = 7
HR_INIT_CONSTANT = 0
HR_INIT_NORMAL = 1
HR_INIT_UNIFORM = 2
HR_INIT_TRUNCATED = 3
HR_VALUE_NODE = 0
HR_VALUE_INPUT = 1
HR_VALUE_CONSTANT = 2
HR_VALUE_PARAM = 3
HR_VALUE_STATE = 4
HR_ATTRIBUTE_INTEGER = 0
HR_ATTRIBUTE_REAL = 1
HR_ATTRIBUTE_NAME = 2
HR_ATTRIBUTE_INTEGERS = 3
HR_LAYOUT_SAME = 0
HR_LAYOUT_CONV = 1
HR_KEEP_MODEL = 0
HR_KEEP_OPTIMIZER = 1
HR_KEEP_NOT = 2
HR_GRAPH_TEXT = 0
HR_GRAPH_DOT = 1
HR_OPTIMIZER_SGD = 0
HR_OPTIMIZER_ADAM = 1
HR_OPTIMIZER_ADAMW = 2
HR_OPTIMIZER_RMSPROP = 3
HR_OPTIMIZER_LION = 4
HR_OPTIMIZER_ADAFACTOR = 5
HR_SCHEDULE_CONSTANT = 0
HR_SCHEDULE_STEP = 1
HR_SCHEDULE_COSINE = 2
HR_SCHEDULE_POLYNOMIAL = 3
HR_SCHEDULE_ONECYCLE = 4
HR_SCHEDULE_PLATEAU = 5
HR_SCHEDULE_EXPONENTIAL = 6
HR_SCORES_AUTO = 0
HR_SCORES_KEPT = 1
HR_SCORES_SLICES = 2
HR_PRECISION_F32 = 0
HR_PRECISION_BF16 = 1
HR_PRECISION_F16 = 2
HR_MOMENTS_F32 = 0
HR_MOMENTS_BF16 = 1
HR_MOMENTS_8BIT = 2
HR_STEP_WHOLE = 0
HR_STEP_PART = 1
HR_STEP_LAST = 2
HR_STEP_EVALUATE = 3
HR_STEP_UPDATE = 4
HR_STEP_GRADIENTS = 5
HR_STEP_FOLD = 6
HR_STEP_FOLD_LAST = 7
HR_STEP_ROUND = 8
HR_STEP_ROUND_LAST = 9
HR_PLAN_GRAPH_WHOLE = 0
HR_PLAN_GRAPH_PART = 1
HR_PLAN_GRAPH_LAST = 2
HR_PLAN_GRAPH_EVALUATE = 3
HR_PLAN_ROLE_MADE = 0
HR_PLAN_ROLE_INPUT = 1
HR_PLAN_ROLE_CONSTANT = 2
HR_PLAN_ROLE_PERSISTENT = 3
HR_PLAN_RUN = 0
HR_PLAN_COPY = 1
HR_PLAN_WAIT = 2
HR_PLAN_TEXT = 0
HR_PLAN_JSON = 1
HR_PLAN_CURVE_SVG = 2
HR_PLAN_MAP_SVG = 3
HR_PLAN_PROBLEM = 4
HR_PLAN_DOT = 5
HR_START_NEW = 0
HR_START_RESUME = 1
HR_START_OVERWRITE = 2
HR_EXPLORE_BATCH = 1
HR_EXPLORE_CHOICES = 2
HR_EXPLORE_CURVE = 4
HR_CAUSE_NONE = 0
HR_CAUSE_NO_FIT = 1
HR_CAUSE_CANCELLED = 2
HR_CAUSE_USAGE = 3
HR_CAUSE_DATA = 4
HR_CAUSE_TRAINING = 5
HR_CAUSE_MACHINE = 6
HR_CAUSE_BUG = 7
HR_SPLIT_ALL = 0
HR_SPLIT_TRAIN = 1
HR_SPLIT_VAL = 2
HR_CALIBRATION_MINMAX = 0
HR_CALIBRATION_PERCENTILE = 1
HR_CALIBRATION_ENTROPY = 2
HR_CALIBRATION_MSE = 3
HR_QUANTIZED_INT8 = 0
HR_QUANTIZED_FP8 = 1
HR_END_RUNNING = 0
HR_END_DONE = 1
HR_END_EARLY = 2
HR_END_CANCELLED = 3
HR_END_FAILED = 4
HR_TRAIN_TEXT = 0
HR_TRAIN_JSON = 1
HR_METRIC_STEP = 0
HR_METRIC_EPOCH = 1
HR_METRIC_VALIDATION = 2
HR_CHECK_OK = 0
HR_CHECK_FAILED = 1
HR_CHECK_SKIPPED = 2
HR_FOUND_OK = 0
HR_FOUND_MISSING = 1
HR_FOUND_BROKEN = 2

hr_build_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_int)
hr_element_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p)
hr_job_event_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p)
hr_map_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)
hr_prediction_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p)
hr_source_fn = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64, c_void_p)
hr_token_fn = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_size_t)
hr_value_get = CFUNCTYPE(c_int32, c_void_p, c_uint32, c_uint64, c_void_p, c_uint64)
hr_value_put = CFUNCTYPE(c_int32, c_void_p, c_uint32, c_uint64, c_void_p, c_uint64)
hr_wait_fn = CFUNCTYPE(c_int32, c_void_p, c_uint64)
hr_write_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)
hr_filter_fn = CFUNCTYPE(c_int, c_void_p, c_void_p)
hr_replay_sync_fn = CFUNCTYPE(c_int, c_void_p)
hr_custom_piece_fn = CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
hr_log_fn = CFUNCTYPE(None, c_void_p, c_int32, c_void_p)
hr_progress_fn = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64, c_uint64)
hr_shrink_fn = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)


class hr_ctx_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("visible_devices", c_char_p),
        ("log", hr_log_fn),
        ("log_user", c_void_p),
        ("log_level", c_int32),
        ("no_cuda", c_int32),
        ("null_bytes", c_uint64),
    ]




class hr_holder(Structure):
    _fields_ = [
        ("owner", c_char * 48),
        ("category", c_char * 16),
        ("bytes", c_uint64),
        ("blocks", c_uint64),
    ]




class hr_error(Structure):
    _fields_ = [
        ("code", c_int32),
        ("cause", c_int32),
        ("option_bytes", c_int32),
        ("holder_count", c_uint32),
        ("message", c_char * 2048),
        ("wanted_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("largest_free_bytes", c_uint64),
        ("device_free_bytes", c_uint64),
        ("holders", hr_holder * 5),
        ("reserved", c_uint64 * 16),
    ]




class hr_device_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char * 64),
        ("description", c_char * 64),
        ("backend", c_char * 16),
        ("total_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("page_bytes", c_uint64),
        ("runtime_bytes", c_uint64),
        ("limits_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("process_bytes", c_uint64),
        ("logical_count", c_uint32),
        ("compute_major", c_uint32),
        ("compute_minor", c_uint32),
        ("reserved", c_uint32),
        ("ours_bytes", c_uint64),
        ("others_bytes", c_uint64),
        ("is_open", c_int32),
        ("is_gpu", c_int32),
    ]




class hr_logical_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("limit_bytes", c_uint64),
        ("growth", c_int32),
        ("idle_trim_ms", c_uint32),
    ]




class hr_block(Structure):
    _fields_ = [
        ("addr", c_uint64),
        ("bytes", c_uint64),
        ("handle", c_uint64),
    ]




class hr_usage(Structure):
    _fields_ = [
        ("live_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("blocks", c_uint64),
    ]




class hr_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("limit_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("held_peak_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("live_peak_bytes", c_uint64),
        ("idle_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("largest_free_bytes", c_uint64),
        ("blocks", c_uint64),
        ("ranges", c_uint64),
        ("allocs", c_uint64),
        ("frees", c_uint64),
        ("refusals", c_uint64),
        ("maps", c_uint64),
        ("growth", c_int32),
        ("idle_trim_ms", c_uint32),
        ("owner_count", c_uint32),
        ("reserved", c_uint32),
        ("category", hr_usage * 16),
    ]




class hr_replay_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("sync", hr_replay_sync_fn),
        ("sync_user", c_void_p),
    ]




class hr_replay_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("planned", c_uint64),
        ("steps", c_uint64),
        ("recorded", c_uint64),
        ("requests", c_uint64),
        ("arena_bytes", c_uint64),
        ("bound_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("block_bytes", c_uint64),
        ("waiting_bytes", c_uint64),
        ("served", c_uint64),
        ("missed", c_uint64),
        ("extra", c_uint64),
        ("overflow", c_uint64),
        ("refused", c_uint64),
        ("syncs", c_uint64),
        ("plans", c_uint64),
        ("unplanned", c_uint64),
    ]




class hr_pool_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("limit_bytes", c_uint64),
        ("granted_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("lease_count", c_uint32),
        ("waiting_count", c_uint32),
    ]




class hr_lease_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_char_p),
        ("name", c_char_p),
        ("wanted_bytes", c_uint64),
        ("least_bytes", c_uint64),
        ("wait_ms", c_uint64),
        ("on_wait", hr_wait_fn),
        ("user", c_void_p),
        ("on_shrink", hr_shrink_fn),
        ("shrink_user", c_void_p),
    ]




class hr_lease_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_char * 48),
        ("name", c_char * 48),
        ("granted_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("least_bytes", c_uint64),
        ("asked_bytes", c_uint64),
        ("waiting_ms", c_uint64),
    ]




class hr_numbers(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("step", c_uint64),
        ("epoch", c_uint64),
        ("samples", c_uint64),
        ("loss", c_double),
        ("accuracy", c_double),
        ("top5", c_double),
        ("learning_rate", c_double),
        ("gradient_norm", c_double),
        ("seconds", c_double),
        ("wait_seconds", c_double),
        ("samples_per_second", c_double),
        ("memory_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("best", c_int32),
        ("skipped", c_int32),
    ]




class hr_job_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int32),
        ("job", c_uint32),
        ("text", c_char_p),
        ("done", c_uint64),
        ("total", c_uint64),
        ("numbers", c_void_p),
        ("trainer", c_void_p),
        ("option", c_char_p),
    ]




class hr_shape(Structure):
    _fields_ = [
        ("rank", c_int32),
        ("dim", c_int64 * 8),
    ]




class hr_meta(Structure):
    _fields_ = [
        ("type", c_int32),
        ("shape", hr_shape),
    ]




class hr_init(Structure):
    _fields_ = [
        ("kind", c_int32),
        ("a", c_double),
        ("b", c_double),
    ]




class hr_node_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("op", c_char_p),
        ("name", c_char_p),
        ("inputs", c_void_p),
        ("input_count", c_uint32),
        ("output_count", c_uint32),
        ("first_output", c_uint32),
        ("attribute_count", c_uint32),
        ("phase", c_int32),
        ("live", c_int32),
    ]




class hr_attribute(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("text", c_char * 208),
        ("kind", c_int32),
        ("is_default", c_int32),
        ("integer", c_int64),
        ("real", c_double),
        ("integer_count", c_uint64),
        ("integers", c_int64 * 8),
    ]




class hr_tags(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("owner", c_uint32),
        ("layout", c_int32),
        ("keep", c_int32),
        ("frozen", c_int32),
        ("decay", c_int32),
        ("reserved", c_int32),
    ]




class hr_op_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("formula", c_char_p),
        ("input_min", c_uint32),
        ("input_max", c_uint32),
        ("output_count", c_uint32),
        ("attribute_count", c_uint32),
        ("has_gradient", c_int32),
        ("is_random", c_int32),
    ]




class hr_op_attribute(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("help", c_char_p),
        ("value", c_char_p),
        ("choices", c_void_p),
        ("kind", c_int32),
        ("is_boolean", c_int32),
    ]




class hr_custom_grad(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("in", c_void_p),
        ("out", c_void_p),
        ("dout", c_void_p),
        ("din", c_void_p),
        ("need", c_uint32),
        ("reserved", c_uint32),
    ]




class hr_custom_call(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("in", c_void_p),
        ("out", c_void_p),
        ("in_meta", c_void_p),
        ("out_meta", c_void_p),
        ("in_count", c_uint32),
        ("out_count", c_uint32),
        ("workspace", c_void_p),
        ("threads", c_void_p),
    ]


hr_custom_options_shape = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint32, c_void_p, c_void_p)
hr_custom_options_slope = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
hr_custom_options_run = CFUNCTYPE(c_int32, c_void_p, c_void_p)


class hr_custom_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("input_count", c_uint32),
        ("output_count", c_uint32),
        ("shape", hr_custom_options_shape),
        ("slope", hr_custom_options_slope),
        ("run", hr_custom_options_run),
        ("overwrite", c_uint32),
        ("coupled", c_int32),
        ("flops_per_element", c_double),
        ("workspace_bytes", c_uint64),
        ("user", c_void_p),
        ("workspace_ratio", c_double),
    ]




class hr_run_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_void_p),
        ("graphs", c_void_p),
        ("graph_count", c_size_t),
        ("budget_bytes", c_uint64),
        ("threads", c_uint32),
        ("reserved", c_uint32),
        ("seed", c_uint64),
        ("budget", c_void_p),
        ("wait_ms", c_uint64),
        ("name", c_char_p),
    ]




class hr_run_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("runtime_bytes", c_uint64),
        ("persistent_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("floor_bytes", c_uint64),
        ("unplanned_bytes", c_uint64),
        ("measured_bytes", c_uint64),
        ("resident_bytes", c_uint64),
        ("recomputed_ops", c_uint64),
        ("time_ratio", c_double),
    ]




class hr_field(Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("meta", hr_meta),
        ("bytes", c_uint64),
        ("data", c_void_p),
    ]




class hr_pipeline_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget_bytes", c_uint64),
        ("seed", c_uint64),
        ("workers", c_uint32),
        ("skip_bad", c_int32),
        ("log", hr_log_fn),
        ("log_user", c_void_p),
        ("log_level", c_int32),
        ("reserved", c_int32),
        ("progress", hr_progress_fn),
        ("progress_user", c_void_p),
        ("budget", c_void_p),
    ]




class hr_map_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("outputs", c_void_p),
        ("names", c_void_p),
        ("output_count", c_size_t),
        ("output_bytes", c_uint64),
        ("parallel", c_uint32),
        ("unordered", c_int32),
    ]




class hr_pipeline_run_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("epochs", c_uint64),
        ("elements", c_uint64),
        ("milliseconds", c_uint64),
    ]




class hr_pipeline_run_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("elements", c_uint64),
        ("samples", c_uint64),
        ("bytes", c_uint64),
        ("epochs", c_uint64),
        ("seconds", c_double),
    ]




class hr_label_range(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("min", c_int64),
        ("max", c_int64),
        ("count", c_uint64),
        ("negative", c_uint64),
    ]




class hr_stage_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char * 32),
        ("elements", c_uint64),
        ("bytes", c_uint64),
        ("busy_ns", c_uint64),
        ("wait_ns", c_uint64),
        ("held_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("smallest_bytes", c_uint64),
        ("parallel", c_uint32),
        ("depth", c_uint32),
        ("shrunk", c_uint64),
    ]




class hr_pipeline_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("smallest_bytes", c_uint64),
        ("epoch", c_uint64),
        ("elements", c_uint64),
        ("bad", c_uint64),
        ("wait_ns", c_uint64),
        ("stage_count", c_uint32),
        ("reserved", c_uint32),
        ("left_over", c_uint64),
    ]




class hr_train_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("optimizer", c_int32),
        ("precision", c_int32),
        ("scores", c_int32),
        ("schedule", c_int32),
        ("nesterov", c_int32),
        ("decay_all", c_int32),
        ("check", c_int32),
        ("ignored", c_int32),
        ("rate", c_double),
        ("momentum", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("alpha", c_double),
        ("epsilon", c_double),
        ("decay", c_double),
        ("clip", c_double),
        ("steps", c_int64),
        ("warmup", c_int64),
        ("every", c_int64),
        ("gamma", c_double),
        ("final_rate", c_double),
        ("moments", c_int32),
        ("relative_step", c_int32),
        ("power", c_double),
        ("clip_value", c_double),
        ("update_clip", c_double),
        ("root_epsilon", c_double),
    ]




class hr_step_state(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("updates", c_uint64),
        ("scale", c_double),
        ("good", c_uint64),
        ("skipped", c_uint64),
        ("reserved", c_uint64 * 3),
    ]




class hr_step_feed(Structure):
    _fields_ = [
        ("rate", c_float),
        ("update", c_float),
        ("scale", c_float),
    ]




class hr_model_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("family", c_char_p),
        ("help", c_char_p),
    ]




class hr_model_key(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("help", c_char_p),
        ("value", c_char * 64),
    ]




class hr_model_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("build", hr_build_fn),
        ("user", c_void_p),
        ("classes", c_int64),
    ]




class hr_weights_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("get", hr_value_get),
        ("put", hr_value_put),
        ("user", c_void_p),
        ("buffer_bytes", c_uint64),
        ("type", c_int32),
        ("check", c_int32),
        ("steps", c_uint64),
    ]




class hr_plan_summary(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("fits", c_int32),
        ("proven", c_int32),
        ("model", c_char_p),
        ("device", c_char_p),
        ("precision", c_char_p),
        ("optimizer", c_char_p),
        ("batch", c_int64),
        ("micro_batch", c_int64),
        ("micro_batches", c_uint32),
        ("measured", c_int32),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("runtime_bytes", c_uint64),
        ("pipeline_bytes", c_uint64),
        ("persistent_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("parameter_bytes", c_uint64),
        ("state_bytes", c_uint64),
        ("constant_bytes", c_uint64),
        ("other_jobs_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("input_bytes", c_uint64),
        ("host_bytes", c_uint64),
        ("host_budget_bytes", c_uint64),
        ("offloaded_bytes", c_uint64),
        ("spilled_bytes", c_uint64),
        ("minimum_bytes", c_uint64),
        ("unconstrained_bytes", c_uint64),
        ("smallest_bytes", c_uint64),
        ("planning_bytes", c_uint64),
        ("recomputed_ops", c_uint64),
        ("step_ns", c_double),
        ("time_ratio", c_double),
        ("time_bound_ratio", c_double),
        ("largest_batch", c_int64),
        ("peak_op", c_char_p),
        ("minimum_op", c_char_p),
        ("minimum_kind", c_char_p),
        ("minimum_op_bytes", c_uint64),
        ("unsplit_op", c_char_p),
        ("graph_count", c_uint32),
        ("memory_count", c_uint32),
        ("way_count", c_uint32),
        ("choice_count", c_uint32),
        ("curve_count", c_uint32),
        ("threads", c_uint32),
        ("fingerprint", c_uint64),
        ("custom_ops", c_uint32),
        ("reserved", c_uint32),
        ("custom_ns", c_double),
        ("custom_workspace_bytes", c_uint64),
    ]




class hr_plan_choice(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("recomputed_ops", c_uint64),
        ("offloaded_bytes", c_uint64),
        ("time_ratio", c_double),
        ("fits", c_int32),
        ("micro_batches", c_uint32),
    ]




class hr_plan_way(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("effect", c_char_p),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("time_ratio", c_double),
        ("needs_more", c_int32),
        ("changes_result", c_int32),
        ("change_count", c_uint32),
        ("micro_batches", c_uint32),
    ]




class hr_plan_graph(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("graph", c_void_p),
        ("kind", c_int32),
        ("job", c_uint32),
        ("samples", c_int64),
        ("runs", c_uint64),
        ("arena_bytes", c_uint64),
        ("time_ns", c_double),
        ("base_time_ns", c_double),
        ("value_count", c_uint32),
        ("buffer_count", c_uint32),
        ("action_count", c_uint32),
        ("peak_action", c_uint32),
    ]




class hr_plan_memory(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("bytes", c_uint64),
        ("out_bytes_per_ns", c_double),
        ("in_bytes_per_ns", c_double),
    ]




class hr_plan_value(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("bytes", c_uint64),
        ("role", c_int32),
        ("producer", c_uint32),
        ("value", c_uint32),
        ("made", c_uint32),
    ]




class hr_plan_buffer(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("memory", c_uint32),
        ("value", c_uint32),
        ("first", c_uint32),
        ("last", c_uint32),
    ]




class hr_plan_action(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int32),
        ("queue", c_uint32),
        ("name", c_char_p),
        ("op_kind", c_char_p),
        ("variant", c_char_p),
        ("op", c_uint32),
        ("recomputed", c_int32),
        ("begin_ns", c_double),
        ("end_ns", c_double),
        ("live_bytes", c_uint64),
        ("operands", c_void_p),
        ("operand_count", c_uint64),
    ]




class hr_problem_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("text", c_char_p),
        ("text_bytes", c_uint64),
        ("budget", c_char_p),
        ("host_budget", c_char_p),
        ("plan_file", c_char_p),
        ("effort", c_uint64),
        ("no_offload", c_int32),
        ("reserved", c_int32),
        ("on_event", hr_job_event_fn),
        ("user", c_void_p),
    ]




class hr_job_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("model", c_char_p),
        ("custom_model", c_void_p),
        ("training", c_char_p),
        ("passes", c_char_p),
        ("init", c_char_p),
        ("smoothing", c_double),
        ("data", c_char_p),
        ("val_data", c_char_p),
        ("pipeline", c_void_p),
        ("val_pipeline", c_void_p),
        ("val_split", c_double),
        ("augment", c_char_p),
        ("data_budget_bytes", c_uint64),
        ("batch", c_int64),
        ("val_batch", c_int64),
        ("micro_batches", c_int64),
        ("accumulate", c_int64),
        ("epochs", c_uint64),
        ("steps", c_uint64),
        ("seed", c_uint64),
        ("val_every", c_uint64),
        ("patience", c_uint64),
        ("min_delta", c_double),
        ("device", c_char_p),
        ("device_spec", c_char_p),
        ("budget", c_char_p),
        ("host_budget", c_char_p),
        ("ledger", c_void_p),
        ("wait_ms", c_uint64),
        ("spill", c_char_p),
        ("plan_file", c_char_p),
        ("gpu_choices", c_char_p),
        ("cache", c_char_p),
        ("effort", c_uint64),
        ("threads", c_uint64),
        ("folder", c_char_p),
        ("save_every", c_uint64),
        ("save_seconds", c_uint64),
        ("log", c_char_p),
        ("tensorboard", c_char_p),
        ("svg", c_char_p),
        ("log_every", c_uint64),
        ("start", c_int32),
        ("split_norm", c_int32),
        ("skip_bad", c_int32),
        ("no_offload", c_int32),
        ("no_measure", c_int32),
        ("exact_f32", c_int32),
        ("tune", c_int32),
        ("grow", c_int32),
        ("keep_gradients", c_int32),
        ("reserved", c_int32),
        ("on_event", hr_job_event_fn),
        ("user", c_void_p),
        ("replicas", c_int64),
        ("net", c_char_p),
        ("net_deadline_ms", c_uint64),
        ("shard", c_char_p),
        ("link", c_char_p),
        ("loss", c_char_p),
        ("class_weights", c_char_p),
        ("metric", c_char_p),
        ("best_by", c_char_p),
        ("mixup", c_double),
        ("cutmix", c_double),
        ("seeds", c_char_p),
        ("labels_count", c_int32),
        ("reserved_end", c_int32),
    ]




class hr_try_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("planned_arena_bytes", c_uint64),
        ("measured_arena_bytes", c_uint64),
        ("planned_peak_bytes", c_uint64),
        ("measured_peak_bytes", c_uint64),
        ("seconds", c_double),
    ]




class hr_infer_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("checkpoint", c_char_p),
        ("data", c_char_p),
        ("data_budget_bytes", c_uint64),
        ("batch", c_int64),
        ("device", c_char_p),
        ("budget", c_char_p),
        ("ledger", c_void_p),
        ("wait_ms", c_uint64),
        ("threads", c_uint64),
        ("split", c_int32),
        ("skip_bad", c_int32),
        ("no_labels", c_int32),
        ("reserved", c_int32),
        ("on_event", hr_job_event_fn),
        ("user", c_void_p),
        ("pipeline", c_void_p),
        ("custom_model", c_void_p),
        ("own_bytes", c_uint64),
        ("model", c_char_p),
        ("metric", c_char_p),
    ]




class hr_infer_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("sample_count", c_uint64),
        ("class_count", c_uint64),
        ("batch", c_int64),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("minimum_bytes", c_uint64),
        ("runtime_bytes", c_uint64),
        ("persistent_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("pipeline_bytes", c_uint64),
        ("model", c_char_p),
        ("checkpoint", c_char_p),
        ("device", c_char_p),
        ("refusal", c_char_p),
        ("fits", c_int64),
        ("output_count", c_uint64),
        ("key", c_char_p),
        ("pixel_classes", c_uint64),
        ("multi_label", c_int64),
    ]




class hr_infer_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("samples", c_uint64),
        ("bad_samples", c_uint64),
        ("loss", c_double),
        ("accuracy", c_double),
        ("top5", c_double),
        ("counted", c_uint64),
        ("measured_peak_bytes", c_uint64),
        ("seconds", c_double),
        ("samples_per_second", c_double),
        ("class_count", c_uint64),
        ("over_budget", c_int64),
    ]




class hr_class_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("samples", c_uint64),
        ("correct", c_uint64),
        ("confused_with", c_int64),
        ("confused_count", c_uint64),
        ("predicted", c_uint64),
        ("precision", c_double),
        ("recall", c_double),
        ("f1", c_double),
        ("iou", c_double),
        ("auc", c_double),
    ]




class hr_metric(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("value", c_double),
    ]




class hr_prediction(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("index", c_uint64),
        ("name", c_char_p),
        ("scores", c_void_p),
        ("probabilities", c_void_p),
        ("order", c_void_p),
        ("class_count", c_uint64),
        ("output", c_void_p),
        ("output_meta", hr_meta),
    ]




class hr_quantize_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("infer", c_void_p),
        ("out", c_char_p),
        ("samples", c_uint64),
        ("method", c_int32),
        ("type", c_int32),
        ("weights", c_char_p),
    ]




class hr_quantize_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("samples", c_uint64),
        ("layers", c_uint64),
        ("real_layers", c_uint64),
        ("ranges", c_uint64),
        ("bytes", c_uint64),
        ("bytes_before", c_uint64),
        ("planned_peak_bytes", c_uint64),
        ("measured_peak_bytes", c_uint64),
        ("seconds", c_double),
    ]




class hr_generate_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("checkpoint", c_char_p),
        ("tokenizer", c_char_p),
        ("device", c_char_p),
        ("budget", c_char_p),
        ("ledger", c_void_p),
        ("wait_ms", c_uint64),
        ("threads", c_uint64),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("seed", c_uint64),
        ("max_tokens", c_uint64),
        ("no_cache", c_int32),
        ("reserved", c_int32),
        ("on_event", hr_job_event_fn),
        ("user", c_void_p),
        ("model", c_char_p),
    ]




class hr_generate_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("fits", c_int64),
        ("context", c_int64),
        ("vocab", c_int64),
        ("budget_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("minimum_bytes", c_uint64),
        ("runtime_bytes", c_uint64),
        ("persistent_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("cache_bytes", c_uint64),
        ("model", c_char_p),
        ("checkpoint", c_char_p),
        ("device", c_char_p),
        ("refusal", c_char_p),
    ]




class hr_generate_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("prompt_tokens", c_uint64),
        ("tokens", c_uint64),
        ("ended", c_int64),
        ("prompt_seconds", c_double),
        ("seconds", c_double),
        ("tokens_per_second", c_double),
        ("measured_peak_bytes", c_uint64),
        ("over_budget", c_int64),
    ]




class hr_train_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("end", c_int32),
        ("over_budget", c_int32),
        ("steps", c_uint64),
        ("epochs", c_uint64),
        ("skipped_steps", c_uint64),
        ("bad_samples", c_uint64),
        ("loss", c_double),
        ("accuracy", c_double),
        ("train_loss", c_double),
        ("last_loss", c_double),
        ("val_loss", c_double),
        ("val_accuracy", c_double),
        ("val_top5", c_double),
        ("val_samples", c_uint64),
        ("best", c_double),
        ("best_epoch", c_uint64),
        ("history", c_uint64),
        ("batch", c_int64),
        ("micro_batches", c_uint64),
        ("recomputed_ops", c_uint64),
        ("budget_bytes", c_uint64),
        ("planned_peak_bytes", c_uint64),
        ("measured_peak_bytes", c_uint64),
        ("planned_arena_bytes", c_uint64),
        ("measured_arena_bytes", c_uint64),
        ("pipeline_bytes", c_uint64),
        ("samples_per_second", c_double),
        ("seconds", c_double),
        ("wait_seconds", c_double),
        ("validation_seconds", c_double),
        ("save_seconds", c_double),
        ("model", c_char_p),
        ("data", c_char_p),
        ("device", c_char_p),
        ("precision", c_char_p),
        ("checkpoint", c_char_p),
        ("checkpoint_step", c_uint64),
        ("left_over_samples", c_uint64),
        ("host_peak_bytes", c_uint64),
        ("host_budget_bytes", c_uint64),
        ("offloaded_bytes", c_uint64),
        ("weights", c_uint64),
        ("slowest_rank", c_uint64),
        ("slowest_seconds", c_double),
    ]




class hr_value_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("shape", hr_shape),
        ("bytes", c_uint64),
        ("type", c_int32),
        ("kind", c_int32),
    ]




class hr_checkpoint_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("path", c_char_p),
        ("model", c_char_p),
        ("precision", c_char_p),
        ("data", c_char_p),
        ("input", c_char_p),
        ("class_count", c_uint64),
        ("tensor_count", c_uint64),
        ("step", c_uint64),
        ("epoch", c_uint64),
        ("batch", c_uint64),
        ("micro_batches", c_uint64),
        ("seed", c_uint64),
        ("history", c_uint64),
        ("best", c_double),
        ("best_epoch", c_uint64),
        ("seconds", c_double),
        ("resumable", c_int32),
        ("custom", c_int32),
    ]




class hr_tensor_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("shape", hr_shape),
        ("bytes", c_uint64),
    ]




class hr_merge_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("layers", c_uint64),
        ("parameters", c_uint64),
        ("bytes", c_uint64),
    ]




class hr_machine_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("memory_bytes", c_uint64),
        ("cgroup_limit_bytes", c_uint64),
        ("lock_limit_bytes", c_uint64),
        ("cores_online", c_uint32),
        ("cores_usable", c_uint32),
        ("system", c_char * 160),
        ("processor", c_char * 96),
        ("features", c_char * 128),
        ("huge_pages", c_char * 96),
        ("cgroup_path", c_char * 256),
    ]




class hr_doctor_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("devices", c_void_p),
        ("device_count", c_size_t),
        ("cache", c_char_p),
    ]




class hr_check(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("subject", c_char_p),
        ("name", c_char_p),
        ("detail", c_char_p),
        ("result", c_int32),
        ("reserved", c_int32),
    ]




class hr_component(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("version", c_char_p),
        ("detail", c_char_p),
        ("found", c_int32),
        ("reserved", c_int32),
    ]


FUNCTIONS = {
    "hr_abs": (c_uint32, [c_void_p, c_uint32]),
    "hr_accuracy": (c_uint32, [c_void_p, c_uint32, c_uint32, c_int]),
    "hr_add": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_affine": (c_uint32, [c_void_p, c_uint32, c_double, c_double]),
    "hr_argmax": (c_uint32, [c_void_p, c_uint32, c_int, c_int]),
    "hr_attention": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_int]),
    "hr_attention_masked": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_int, c_double, c_double]),
    "hr_attention_packed": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_avg_pool": (c_uint32, [c_void_p, c_uint32, c_int, c_int, c_int]),
    "hr_batch_norm": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_double]),
    "hr_batch_norm_inference": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, c_double]),
    "hr_batch_norm_relu": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_double]),
    "hr_batch_norm_stats": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_double, c_double]),
    "hr_bias_add": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_binary_cross_entropy": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_block_alloc": (c_int32, [c_void_p, c_uint64, c_int32, c_uint32, c_void_p]),
    "hr_block_free": (c_int32, [c_void_p, c_void_p]),
    "hr_budget_ask": (c_int32, [c_void_p, c_char_p, c_char_p, c_uint64]),
    "hr_budget_check": (c_int32, [c_void_p]),
    "hr_budget_create": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_budget_destroy": (c_int32, [c_void_p]),
    "hr_budget_get_lease": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p]),
    "hr_budget_get_pool": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_budget_set_limit": (c_int32, [c_void_p, c_char_p, c_uint64]),
    "hr_bytes_parse": (c_int32, [c_char_p, c_uint64, c_void_p]),
    "hr_bytes_print": (c_char_p, [c_uint64, c_void_p, c_size_t]),
    "hr_cast": (c_uint32, [c_void_p, c_uint32, c_int32]),
    "hr_category_name": (c_char_p, [c_int32]),
    "hr_checkpoint_class": (c_char_p, [c_void_p, c_uint64]),
    "hr_checkpoint_close": (None, [c_void_p]),
    "hr_checkpoint_get_info": (c_int32, [c_void_p, c_void_p]),
    "hr_checkpoint_get_tensor": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_checkpoint_merge": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_checkpoint_model": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_checkpoint_open": (c_int32, [c_char_p, c_void_p, c_void_p]),
    "hr_checkpoint_read": (c_int32, [c_void_p, c_char_p, c_int32, c_uint64, c_void_p, c_uint64, c_void_p]),
    "hr_clip": (c_uint32, [c_void_p, c_uint32, c_double, c_double]),
    "hr_compare": (c_uint32, [c_void_p, c_uint32, c_uint32, c_char_p]),
    "hr_concat": (c_uint32, [c_void_p, c_void_p, c_size_t, c_int]),
    "hr_conv1d": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_int, c_int, c_int, c_int]),
    "hr_conv2d": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_int, c_int, c_int, c_int]),
    "hr_conv3d": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_int, c_int]),
    "hr_copy": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint64]),
    "hr_cross_entropy": (c_uint32, [c_void_p, c_uint32, c_uint32, c_double]),
    "hr_cross_entropy_soft": (c_uint32, [c_void_p, c_uint32, c_uint32, c_double]),
    "hr_ctx_create": (c_int32, [c_void_p, c_void_p]),
    "hr_ctx_destroy": (None, [c_void_p]),
    "hr_ctx_error": (None, [c_void_p, c_void_p]),
    "hr_cumsum": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_custom_create": (c_int32, [c_void_p, c_void_p]),
    "hr_custom_destroy": (None, [c_void_p]),
    "hr_custom_parallel": (None, [c_void_p, c_uint64, c_uint64, hr_custom_piece_fn, c_void_p]),
    "hr_device_at": (c_void_p, [c_void_p, c_size_t]),
    "hr_device_count": (c_size_t, [c_void_p]),
    "hr_device_find": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_device_get_info": (c_int32, [c_void_p, c_void_p]),
    "hr_device_name": (c_char_p, [c_void_p]),
    "hr_device_open": (c_int32, [c_void_p]),
    "hr_div": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_doctor_create": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_doctor_destroy": (None, [c_void_p]),
    "hr_doctor_get_check": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_doctor_get_component": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_dropout": (c_uint32, [c_void_p, c_uint32, c_double]),
    "hr_element_field": (c_void_p, [c_void_p, c_size_t]),
    "hr_element_field_count": (c_size_t, [c_void_p]),
    "hr_element_find": (c_void_p, [c_void_p, c_char_p]),
    "hr_element_ref": (c_void_p, [c_void_p]),
    "hr_element_unref": (None, [c_void_p]),
    "hr_emit_explain": (None, [c_void_p, c_char_p]),
    "hr_emit_field": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_emit_keep": (c_int32, [c_void_p, c_char_p]),
    "hr_emit_random": (c_uint64, [c_void_p]),
    "hr_event_create": (c_int32, [c_void_p, c_void_p]),
    "hr_event_destroy": (None, [c_void_p]),
    "hr_event_elapsed": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_event_mark": (c_int32, [c_void_p, c_void_p]),
    "hr_event_wait": (c_int32, [c_void_p, c_void_p]),
    "hr_exp": (c_uint32, [c_void_p, c_uint32]),
    "hr_fill": (c_int32, [c_void_p, c_uint64, c_uint8, c_uint64]),
    "hr_flip": (c_uint32, [c_void_p, c_uint32, c_char_p]),
    "hr_function": (c_uint32, [c_void_p, c_uint32, c_char_p, c_double]),
    "hr_gather": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_gelu": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_generator_close": (None, [c_void_p]),
    "hr_generator_get_info": (c_int32, [c_void_p, c_void_p]),
    "hr_generator_open": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_generator_run": (c_int32, [c_void_p, c_char_p, c_size_t, hr_token_fn, c_void_p, c_void_p, c_void_p]),
    "hr_global_avg_pool": (c_uint32, [c_void_p, c_uint32]),
    "hr_graph_constant": (c_uint32, [c_void_p, c_int32, hr_shape, c_void_p]),
    "hr_graph_create": (c_int32, [c_void_p]),
    "hr_graph_custom": (c_uint32, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "hr_graph_destroy": (None, [c_void_p]),
    "hr_graph_differentiate": (c_int32, [c_void_p, c_uint32, c_uint32, c_void_p, c_size_t, c_void_p]),
    "hr_graph_error": (None, [c_void_p, c_void_p]),
    "hr_graph_fill": (c_uint32, [c_void_p, c_int32, hr_shape, c_double]),
    "hr_graph_find": (c_uint32, [c_void_p, c_char_p]),
    "hr_graph_find_node": (c_int32, [c_void_p, c_uint32, c_void_p]),
    "hr_graph_freeze": (c_int32, [c_void_p]),
    "hr_graph_get_attribute": (c_int32, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "hr_graph_get_node": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_graph_get_result": (c_int32, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_graph_get_tags": (c_int32, [c_void_p, c_uint32, c_void_p]),
    "hr_graph_input": (c_uint32, [c_void_p, c_char_p, c_int32, hr_shape]),
    "hr_graph_kind": (c_int32, [c_void_p, c_uint32]),
    "hr_graph_meta": (hr_meta, [c_void_p, c_uint32]),
    "hr_graph_name": (c_char_p, [c_void_p, c_uint32]),
    "hr_graph_node": (c_uint32, [c_void_p, c_char_p, c_void_p, c_size_t, c_char_p]),
    "hr_graph_node_count": (c_size_t, [c_void_p]),
    "hr_graph_output": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_graph_param": (c_uint32, [c_void_p, c_char_p, c_int32, hr_shape, hr_init]),
    "hr_graph_parse": (c_int32, [c_char_p, c_size_t, c_void_p, c_void_p]),
    "hr_graph_pop": (None, [c_void_p]),
    "hr_graph_push": (None, [c_void_p, c_char_p]),
    "hr_graph_result": (None, [c_void_p, c_uint32, c_char_p]),
    "hr_graph_set_tags": (None, [c_void_p, c_uint32, c_void_p]),
    "hr_graph_state": (c_uint32, [c_void_p, c_char_p, c_int32, hr_shape, hr_init]),
    "hr_graph_value_count": (c_size_t, [c_void_p]),
    "hr_graph_write": (c_int32, [c_void_p, hr_write_fn, c_void_p, c_void_p]),
    "hr_group_norm": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_int, c_double]),
    "hr_gru": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, c_int]),
    "hr_init_constant": (hr_init, [c_double]),
    "hr_init_normal": (hr_init, [c_double]),
    "hr_init_truncated": (hr_init, [c_double]),
    "hr_init_uniform": (hr_init, [c_double, c_double]),
    "hr_job_explore": (c_int32, [c_void_p, c_uint32, c_void_p]),
    "hr_job_get_result": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_job_plan": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_job_plan_together": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_job_plan_way": (c_int32, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_job_print": (c_int32, [c_void_p, c_size_t, c_int32, c_uint32, hr_write_fn, c_void_p]),
    "hr_job_train": (c_int32, [c_void_p, c_void_p]),
    "hr_job_try": (c_int32, [c_void_p, c_uint64, c_void_p, c_void_p, c_void_p]),
    "hr_layer_norm": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_double]),
    "hr_lease_asked": (c_uint64, [c_void_p]),
    "hr_lease_decline": (None, [c_void_p, c_uint64]),
    "hr_lease_granted": (c_uint64, [c_void_p]),
    "hr_lease_hold": (c_int32, [c_void_p, c_uint64]),
    "hr_lease_release": (None, [c_void_p]),
    "hr_lease_request": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_lease_resize": (c_int32, [c_void_p, c_uint64]),
    "hr_linear": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "hr_linear_cross_entropy": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_double]),
    "hr_log": (c_uint32, [c_void_p, c_uint32]),
    "hr_log_softmax": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_logical_check": (c_int32, [c_void_p]),
    "hr_logical_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_logical_destroy": (c_int32, [c_void_p]),
    "hr_logical_device": (c_void_p, [c_void_p]),
    "hr_logical_get_stats": (c_int32, [c_void_p, c_void_p]),
    "hr_logical_name": (c_char_p, [c_void_p]),
    "hr_logical_reset_peaks": (None, [c_void_p]),
    "hr_logical_set_growth": (c_int32, [c_void_p, c_int32]),
    "hr_logical_set_idle_trim": (c_int32, [c_void_p, c_uint32]),
    "hr_logical_set_limit": (c_int32, [c_void_p, c_uint64]),
    "hr_logical_trim": (c_int32, [c_void_p, c_void_p]),
    "hr_lstm": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, c_int]),
    "hr_machine_get_info": (c_int32, [c_void_p]),
    "hr_matmul": (c_uint32, [c_void_p, c_uint32, c_uint32, c_int, c_int]),
    "hr_max": (c_uint32, [c_void_p, c_uint32, c_char_p, c_int]),
    "hr_max_pool": (c_uint32, [c_void_p, c_uint32, c_int, c_int, c_int]),
    "hr_maximum": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_mean": (c_uint32, [c_void_p, c_uint32, c_char_p, c_int]),
    "hr_mean_squared_error": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_meta_bytes": (c_uint64, [c_void_p]),
    "hr_meta_check": (c_int32, [c_void_p, c_void_p]),
    "hr_meta_print": (c_char_p, [c_void_p, c_void_p, c_size_t]),
    "hr_minimum": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_model_build": (c_int32, [c_void_p, c_void_p, c_int64, c_int]),
    "hr_model_classes": (c_int64, [c_void_p]),
    "hr_model_close": (None, [c_void_p]),
    "hr_model_define": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_model_find": (c_int32, [c_char_p, c_void_p, c_void_p]),
    "hr_model_fingerprint": (c_uint64, [c_void_p]),
    "hr_model_keys": (c_int32, [c_char_p, c_size_t, c_void_p]),
    "hr_model_list": (c_int32, [c_size_t, c_void_p]),
    "hr_model_load": (c_int32, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_model_name": (c_char_p, [c_void_p]),
    "hr_model_open": (c_int32, [c_char_p, c_void_p, c_void_p]),
    "hr_model_parse": (c_int32, [c_char_p, c_size_t, c_void_p, c_void_p]),
    "hr_model_parse_custom": (c_int32, [c_char_p, c_size_t, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_model_save": (c_int32, [c_void_p, c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_model_text": (c_char_p, [c_void_p]),
    "hr_model_write": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_mul": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_neg": (c_uint32, [c_void_p, c_uint32]),
    "hr_op_list": (c_int32, [c_size_t, c_void_p]),
    "hr_op_list_attribute": (c_int32, [c_size_t, c_size_t, c_void_p]),
    "hr_owner_get": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_owner_get_usage": (c_int32, [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t]),
    "hr_pad": (c_uint32, [c_void_p, c_uint32, c_char_p, c_char_p, c_double]),
    "hr_pinned_create": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "hr_pinned_destroy": (None, [c_void_p, c_void_p]),
    "hr_pipeline_add": (c_int32, [c_void_p, c_char_p]),
    "hr_pipeline_arrays": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "hr_pipeline_bad": (c_char_p, [c_void_p, c_size_t]),
    "hr_pipeline_build": (c_int32, [c_void_p]),
    "hr_pipeline_callback": (c_int32, [c_void_p, hr_source_fn, c_void_p, c_uint64, c_void_p]),
    "hr_pipeline_class": (c_char_p, [c_void_p, c_size_t]),
    "hr_pipeline_count": (c_uint64, [c_void_p]),
    "hr_pipeline_create": (c_int32, [c_void_p, c_void_p]),
    "hr_pipeline_destroy": (None, [c_void_p]),
    "hr_pipeline_error": (None, [c_void_p, c_void_p]),
    "hr_pipeline_field": (c_void_p, [c_void_p, c_size_t]),
    "hr_pipeline_field_count": (c_size_t, [c_void_p]),
    "hr_pipeline_filter": (c_int32, [c_void_p, hr_filter_fn, c_void_p, c_char_p]),
    "hr_pipeline_fingerprint": (c_uint64, [c_void_p]),
    "hr_pipeline_get_stage_stats": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_pipeline_get_stats": (c_int32, [c_void_p, c_void_p]),
    "hr_pipeline_labels": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_pipeline_map": (c_int32, [c_void_p, hr_map_fn, c_void_p, c_void_p]),
    "hr_pipeline_newest": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "hr_pipeline_next": (c_int32, [c_void_p, c_void_p]),
    "hr_pipeline_next_into": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "hr_pipeline_note": (c_char_p, [c_void_p, c_size_t]),
    "hr_pipeline_open": (c_int32, [c_void_p, c_char_p, c_void_p, c_void_p]),
    "hr_pipeline_restore": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "hr_pipeline_rewind": (c_int32, [c_void_p]),
    "hr_pipeline_run": (c_int32, [c_void_p, c_void_p, hr_element_fn, c_void_p, c_void_p]),
    "hr_pipeline_save": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_pipeline_seek": (c_int32, [c_void_p, c_uint64]),
    "hr_pipeline_state_free": (None, [c_void_p]),
    "hr_plan_check": (c_int32, [c_void_p, c_void_p]),
    "hr_plan_destroy": (None, [c_void_p]),
    "hr_plan_get_action": (c_int32, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "hr_plan_get_buffer": (c_int32, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "hr_plan_get_choice": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_plan_get_curve": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_plan_get_graph": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_plan_get_memory": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_plan_get_summary": (c_int32, [c_void_p, c_void_p]),
    "hr_plan_get_value": (c_int32, [c_void_p, c_size_t, c_size_t, c_void_p]),
    "hr_plan_get_way": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_plan_get_way_change": (c_int32, [c_void_p, c_size_t, c_size_t, c_void_p, c_void_p]),
    "hr_plan_print": (c_int32, [c_void_p, c_int32, c_uint32, hr_write_fn, c_void_p]),
    "hr_plan_problem": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_plan_save": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_plan_save_page": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_power": (c_uint32, [c_void_p, c_uint32, c_double]),
    "hr_predictor_class_name": (c_char_p, [c_void_p, c_uint64]),
    "hr_predictor_close": (None, [c_void_p]),
    "hr_predictor_confusion": (c_uint64, [c_void_p, c_uint64, c_uint64]),
    "hr_predictor_evaluate": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_predictor_get_class": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_predictor_get_info": (c_int32, [c_void_p, c_void_p]),
    "hr_predictor_get_metric": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_predictor_open": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_predictor_run": (c_int32, [c_void_p, hr_prediction_fn, c_void_p, c_void_p, c_void_p]),
    "hr_predictor_save_confusion": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_predictor_set_data": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_prelu": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_put_along": (c_uint32, [c_void_p, c_uint32, c_uint32, c_int, c_int64]),
    "hr_quantize": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "hr_queue_create": (c_int32, [c_void_p, c_void_p]),
    "hr_queue_destroy": (None, [c_void_p]),
    "hr_queue_sync": (c_int32, [c_void_p]),
    "hr_range_addr": (c_uint64, [c_void_p]),
    "hr_range_bytes": (c_uint64, [c_void_p]),
    "hr_range_create": (c_int32, [c_void_p, c_uint64, c_int32, c_uint32, c_void_p]),
    "hr_range_destroy": (c_int32, [c_void_p]),
    "hr_range_resize": (c_int32, [c_void_p, c_uint64]),
    "hr_range_share": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "hr_relu": (c_uint32, [c_void_p, c_uint32]),
    "hr_relu_mask": (c_uint32, [c_void_p, c_uint32]),
    "hr_replay_alloc": (c_int32, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "hr_replay_claim": (c_int32, [c_void_p, c_uint64]),
    "hr_replay_create": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_replay_destroy": (None, [c_void_p]),
    "hr_replay_free": (c_int32, [c_void_p, c_uint64]),
    "hr_replay_get_stats": (c_int32, [c_void_p, c_void_p]),
    "hr_replay_laid": (c_int32, [c_void_p]),
    "hr_replay_lay": (c_int32, [c_void_p]),
    "hr_replay_pause": (None, [c_void_p, c_int]),
    "hr_replay_place": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "hr_replay_release": (None, [c_void_p]),
    "hr_replay_reset_peak": (None, [c_void_p]),
    "hr_replay_share": (c_int32, [c_void_p, c_uint64]),
    "hr_replay_sketch": (c_int32, [c_void_p, c_uint64]),
    "hr_replay_step": (c_int32, [c_void_p]),
    "hr_replay_trim": (c_int32, [c_void_p]),
    "hr_replay_unlay": (c_int32, [c_void_p]),
    "hr_reshape": (c_uint32, [c_void_p, c_uint32, hr_shape]),
    "hr_resize": (c_uint32, [c_void_p, c_uint32, c_int, c_int, c_char_p]),
    "hr_rms_norm": (c_uint32, [c_void_p, c_uint32, c_uint32, c_double]),
    "hr_roll": (c_uint32, [c_void_p, c_uint32, c_int64, c_int]),
    "hr_rsqrt": (c_uint32, [c_void_p, c_uint32]),
    "hr_run_at": (None, [c_void_p, c_uint32, c_uint32]),
    "hr_run_close": (None, [c_void_p]),
    "hr_run_error": (None, [c_void_p, c_void_p]),
    "hr_run_get": (c_int32, [c_void_p, c_size_t, c_char_p, c_void_p, c_uint64]),
    "hr_run_get_report": (c_int32, [c_void_p, c_void_p]),
    "hr_run_open": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_run_put": (c_int32, [c_void_p, c_size_t, c_char_p, c_void_p, c_uint64]),
    "hr_run_step": (c_int32, [c_void_p, c_size_t]),
    "hr_sgd": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_double, c_int, c_double]),
    "hr_shape_0": (hr_shape, []),
    "hr_shape_1": (hr_shape, [c_int64]),
    "hr_shape_2": (hr_shape, [c_int64, c_int64]),
    "hr_shape_3": (hr_shape, [c_int64, c_int64, c_int64]),
    "hr_shape_4": (hr_shape, [c_int64, c_int64, c_int64, c_int64]),
    "hr_shape_5": (hr_shape, [c_int64, c_int64, c_int64, c_int64, c_int64]),
    "hr_shape_count": (c_int64, [c_void_p]),
    "hr_shape_from": (hr_shape, [c_int32, c_void_p]),
    "hr_shape_same": (c_int, [c_void_p, c_void_p]),
    "hr_sigmoid": (c_uint32, [c_void_p, c_uint32]),
    "hr_silu": (c_uint32, [c_void_p, c_uint32]),
    "hr_slice": (c_uint32, [c_void_p, c_uint32, c_char_p, c_char_p]),
    "hr_softmax": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_sqrt": (c_uint32, [c_void_p, c_uint32]),
    "hr_status_name": (c_char_p, [c_int32]),
    "hr_status_text": (c_char_p, [c_int32]),
    "hr_step_build": (c_int32, [c_void_p, hr_build_fn, c_void_p, c_int32, c_int64, c_void_p, c_void_p]),
    "hr_step_done": (c_int, [c_void_p, c_void_p, c_float, hr_log_fn, c_void_p]),
    "hr_step_next": (hr_step_feed, [c_void_p, c_void_p]),
    "hr_step_state_init": (None, [c_void_p, c_void_p]),
    "hr_stop_gradient": (c_uint32, [c_void_p, c_uint32]),
    "hr_sub": (c_uint32, [c_void_p, c_uint32, c_uint32]),
    "hr_sum": (c_uint32, [c_void_p, c_uint32, c_char_p, c_int]),
    "hr_take_along": (c_uint32, [c_void_p, c_uint32, c_uint32, c_int]),
    "hr_tanh": (c_uint32, [c_void_p, c_uint32]),
    "hr_top_k": (c_uint32, [c_void_p, c_uint32, c_int]),
    "hr_torch_alloc": (c_void_p, [c_size_t, c_int, c_void_p]),
    "hr_torch_free": (None, [c_void_p, c_size_t, c_int, c_void_p]),
    "hr_torch_record": (None, [c_void_p, c_void_p]),
    "hr_torch_sync": (c_int, [c_void_p]),
    "hr_torch_use": (c_int32, [c_int, c_void_p, c_int]),
    "hr_train_options_parse": (c_int32, [c_char_p, c_void_p, c_void_p]),
    "hr_train_rate": (c_double, [c_void_p, c_uint64]),
    "hr_trainer_advance": (c_int32, [c_void_p, c_void_p]),
    "hr_trainer_apply": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_trainer_backward": (c_int32, [c_void_p, c_void_p, c_size_t, c_double, c_void_p, c_void_p]),
    "hr_trainer_close": (None, [c_void_p]),
    "hr_trainer_drop_gradients": (None, [c_void_p]),
    "hr_trainer_end": (c_int32, [c_void_p]),
    "hr_trainer_evaluate": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_trainer_finish": (c_int32, [c_void_p, c_void_p]),
    "hr_trainer_get": (c_int32, [c_void_p, c_char_p, c_void_p, c_uint64]),
    "hr_trainer_get_gradient": (c_int32, [c_void_p, c_char_p, c_void_p, c_uint64]),
    "hr_trainer_get_metric": (c_int32, [c_void_p, c_char_p, c_int32, c_void_p]),
    "hr_trainer_get_value": (c_int32, [c_void_p, c_size_t, c_void_p]),
    "hr_trainer_graph": (c_void_p, [c_void_p]),
    "hr_trainer_load_weights": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_trainer_open": (c_int32, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_trainer_put": (c_int32, [c_void_p, c_char_p, c_void_p, c_uint64]),
    "hr_trainer_put_gradient": (c_int32, [c_void_p, c_char_p, c_void_p, c_uint64]),
    "hr_trainer_save": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_trainer_save_weights": (c_int32, [c_void_p, c_char_p, c_void_p]),
    "hr_trainer_set_learning_rate": (c_int32, [c_void_p, c_double]),
    "hr_trainer_step": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "hr_trainer_validate": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hr_transpose": (c_uint32, [c_void_p, c_uint32, c_char_p]),
    "hr_type_bytes": (c_size_t, [c_int32]),
    "hr_type_find": (c_int32, [c_char_p, c_void_p]),
    "hr_type_is_real": (c_int, [c_int32]),
    "hr_type_name": (c_char_p, [c_int32]),
    "hr_version": (c_char_p, []),
    "hr_where": (c_uint32, [c_void_p, c_uint32, c_uint32, c_uint32]),
}
