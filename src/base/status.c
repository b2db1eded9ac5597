/* Names and texts of the one status list. */
#include <headroom/status.h>

const char *hr_status_name(hr_status status) {
    switch (status) {
#define NAME_CASE(NAME, CODE, TEXT)                                                                \
    case HR_##NAME:                                                                                \
        return "HR_" #NAME;
        HR_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "HR_E_UNKNOWN";
}

const char *hr_status_text(hr_status status) {
    switch (status) {
#define TEXT_CASE(NAME, CODE, TEXT)                                                                \
    case HR_##NAME:                                                                                \
        return TEXT;
        HR_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "not a Headroom status code";
}
