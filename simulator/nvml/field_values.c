/* nvmlDeviceGetFieldValues: many numbers in one call, each with its own answer. Ids are
 * NVML_FI_DEV_*. */
#include "../ini/clock.h"
#include "gate.h"
#include "memory_errors.h"
#include "nvlink.h"

enum { ANY_GPU, NEEDS_ECC, NOT_WITH_INSTANCES, NEGATIVE };
/* Seen on R580; in nvidia-ml-py they came one after the other from 13.590 to 13.615. */
enum { NEWER_BRANCH = 595, LAST_FIELD = 307 };
enum { U32 = VALUE_TYPE_UNSIGNED_INT, U64 = VALUE_TYPE_UNSIGNED_LONG_LONG };

struct field {
    unsigned id;
    enum value value;
    unsigned type;
    int rule;
};

static const struct field fields[] = {
    {1, VALUE_ECC_MODE, U64, ANY_GPU},
    {2, VALUE_ECC_MODE, U64, ANY_GPU},
    {3, VALUE_ECC_SBE_VOLATILE, U64, NEEDS_ECC},
    {4, VALUE_ECC_DBE_VOLATILE, U64, NEEDS_ECC},
    {5, VALUE_ECC_SBE_AGGREGATE, U64, NEEDS_ECC},
    {6, VALUE_ECC_DBE_AGGREGATE, U64, NEEDS_ECC},
    {29, VALUE_RETIRED_SBE, U64, ANY_GPU},
    {30, VALUE_RETIRED_DBE, U64, ANY_GPU},
    {31, VALUE_RETIRED_PENDING, U64, ANY_GPU},
    {74, VALUE_VIOLATION_POWER_NS, U64, ANY_GPU},
    {75, VALUE_VIOLATION_THERMAL_NS, U64, ANY_GPU},
    {76, VALUE_VIOLATION_SYNC_BOOST_NS, U64, ANY_GPU},
    {77, VALUE_VIOLATION_BOARD_LIMIT_NS, U64, ANY_GPU},
    {78, VALUE_VIOLATION_LOW_UTILIZATION_NS, U64, ANY_GPU},
    {79, VALUE_VIOLATION_RELIABILITY_NS, U64, ANY_GPU},
    {80, VALUE_VIOLATION_APPLICATION_CLOCKS_NS, U64, ANY_GPU},
    {81, VALUE_VIOLATION_BASE_CLOCKS_NS, U64, ANY_GPU},
    {82, VALUE_MEMORY_TEMPERATURE_C, U32, ANY_GPU},
    {83, VALUE_ENERGY_MJ, U64, ANY_GPU},
    {92, VALUE_RETIRED_PENDING_SBE, U64, ANY_GPU},
    {93, VALUE_RETIRED_PENDING_DBE, U64, ANY_GPU},
    {94, VALUE_PCIE_REPLAYS, U32, ANY_GPU},
    {95, VALUE_PCIE_REPLAY_ROLLOVERS, U32, ANY_GPU},
    {142, VALUE_REMAP_CORRECTABLE, U64, NOT_WITH_INSTANCES},
    {143, VALUE_REMAP_UNCORRECTABLE, U64, NOT_WITH_INSTANCES},
    {144, VALUE_REMAP_PENDING, U64, NOT_WITH_INSTANCES},
    {145, VALUE_REMAP_FAILURE, U64, NOT_WITH_INSTANCES},
    {169, VALUE_PCIE_L0_TO_RECOVERY, U32, ANY_GPU},
    {170, VALUE_C2C_LINKS, U32, ANY_GPU},
    {173, VALUE_PCIE_CORRECTABLE_ERRORS, U32, ANY_GPU},
    {174, VALUE_PCIE_NAKS_RECEIVED, U32, ANY_GPU},
    {175, VALUE_PCIE_RECEIVER_ERRORS, U32, ANY_GPU},
    {176, VALUE_PCIE_BAD_TLP, U32, ANY_GPU},
    {177, VALUE_PCIE_NAKS_SENT, U32, ANY_GPU},
    {178, VALUE_PCIE_BAD_DLLP, U32, ANY_GPU},
    {179, VALUE_PCIE_NON_FATAL_ERRORS, U32, ANY_GPU},
    {180, VALUE_PCIE_FATAL_ERRORS, U32, ANY_GPU},
    {181, VALUE_PCIE_UNSUPPORTED_REQUESTS, U32, ANY_GPU},
    {182, VALUE_PCIE_LCRC_ERRORS, U32, ANY_GPU},
    {183, VALUE_PCIE_LANE_ERRORS, U32, ANY_GPU},
    {185, VALUE_POWER_MW, U32, ANY_GPU},
    {186, VALUE_POWER_MW, U32, ANY_GPU},
    {190, VALUE_POWER_LIMIT_MW, U32, ANY_GPU},
    {191, VALUE_ENERGY_MJ, U64, ANY_GPU},
    {192, VALUE_POWER_LIMIT_MW, U32, ANY_GPU},
    {193, VALUE_SHUTDOWN_TLIMIT_C, VALUE_TYPE_SIGNED_INT, NEGATIVE},
    {194, VALUE_SLOWDOWN_TLIMIT_C, VALUE_TYPE_SIGNED_INT, NEGATIVE},
    {195, VALUE_MAX_MEMORY_TLIMIT_C, VALUE_TYPE_SIGNED_INT, NEGATIVE},
    {196, VALUE_MAX_TLIMIT_C, VALUE_TYPE_SIGNED_INT, NEGATIVE},
    {197, VALUE_PCIE_TX_BYTES, U32, ANY_GPU},
    {198, VALUE_PCIE_RX_BYTES, U32, ANY_GPU},
    {230, VALUE_RECOVERY_ACTION, U32, ANY_GPU},
    {269, VALUE_SLOWED_SW_THERMAL_NS, U64, ANY_GPU},
    {270, VALUE_SLOWED_HW_THERMAL_NS, U64, ANY_GPU},
    {271, VALUE_SLOWED_HW_POWER_BRAKE_NS, U64, ANY_GPU},
};

/* ECC errors of one place: ids go up by error, then by place; L1 first. Those of DRAM are not
 * answered: since Ampere they come from nvmlDeviceGetMemoryErrorCounter (seen on H100, R580). */
struct place {
    unsigned id, error, counter, location;
};

enum { L1 = 0, L2, REGISTERS = 3, TEXTURE, CBU = 6 };

static const struct place place_fields[] = {
    {7, 0, 0, L1},         {8, 1, 0, L1},         {9, 0, 0, L2},         {10, 1, 0, L2},
    {13, 0, 0, REGISTERS}, {14, 1, 0, REGISTERS}, {15, 0, 0, TEXTURE},   {16, 1, 0, TEXTURE},
    {17, 1, 0, CBU},       {18, 0, 1, L1},        {19, 1, 1, L1},        {20, 0, 1, L2},
    {21, 1, 1, L2},        {24, 0, 1, REGISTERS}, {25, 1, 1, REGISTERS}, {26, 0, 1, TEXTURE},
    {27, 1, 1, TEXTURE},   {28, 1, 1, CBU},
};

/* Counters that have an id per link, and those whose scope is the link or all links. */
enum { BEFORE_BLACKWELL = 1, SINCE_BLACKWELL, ALWAYS };

struct link_ids {
    unsigned first, count, link; /* link: that of the first id, or ALL_LINKS, or BY_SCOPE */
    enum link_value value;
    int when;
};

#define BY_SCOPE 0xFFFFFFFEu

static const struct link_ids link_fields[] = {
    {32, 6, 0, LINK_CRC_FLIT, BEFORE_BLACKWELL},
    {38, 1, ALL_LINKS, LINK_CRC_FLIT, BEFORE_BLACKWELL},
    {39, 6, 0, LINK_CRC_DATA, BEFORE_BLACKWELL},
    {45, 1, ALL_LINKS, LINK_CRC_DATA, BEFORE_BLACKWELL},
    {46, 6, 0, LINK_REPLAY, BEFORE_BLACKWELL},
    {52, 1, ALL_LINKS, LINK_REPLAY, BEFORE_BLACKWELL},
    {53, 6, 0, LINK_RECOVERY, BEFORE_BLACKWELL},
    {59, 1, ALL_LINKS, LINK_RECOVERY, BEFORE_BLACKWELL},
    {96, 6, 6, LINK_CRC_FLIT, BEFORE_BLACKWELL},
    {102, 6, 6, LINK_CRC_DATA, BEFORE_BLACKWELL},
    {108, 6, 6, LINK_REPLAY, BEFORE_BLACKWELL},
    {114, 6, 6, LINK_RECOVERY, BEFORE_BLACKWELL},
    {138, 1, BY_SCOPE, LINK_TX_KIB, ALWAYS},
    {139, 1, BY_SCOPE, LINK_RX_KIB, ALWAYS},
    {140, 1, BY_SCOPE, LINK_RAW_TX_KIB, ALWAYS},
    {141, 1, BY_SCOPE, LINK_RAW_RX_KIB, ALWAYS},
    {148, 12, 0, LINK_ECC, BEFORE_BLACKWELL},
    {160, 1, ALL_LINKS, LINK_ECC, BEFORE_BLACKWELL},
    {161, 1, BY_SCOPE, LINK_REPLAY, BEFORE_BLACKWELL},
    {162, 1, BY_SCOPE, LINK_RECOVERY, BEFORE_BLACKWELL},
    {163, 1, BY_SCOPE, LINK_CRC_FLIT, BEFORE_BLACKWELL},
    {165, 1, BY_SCOPE, LINK_STATE, ALWAYS},
    {201, 1, BY_SCOPE, LINK_TX_PACKETS, SINCE_BLACKWELL},
    {202, 1, BY_SCOPE, LINK_TX_BYTES, SINCE_BLACKWELL},
    {203, 1, BY_SCOPE, LINK_RX_PACKETS, SINCE_BLACKWELL},
    {204, 1, BY_SCOPE, LINK_RX_BYTES, SINCE_BLACKWELL},
    {206, 1, BY_SCOPE, LINK_MALFORMED, SINCE_BLACKWELL},
    {207, 1, BY_SCOPE, LINK_OVERRUNS, SINCE_BLACKWELL},
    {208, 1, BY_SCOPE, LINK_RX_ERRORS, SINCE_BLACKWELL},
    {209, 1, BY_SCOPE, LINK_RX_REMOTE_ERRORS, SINCE_BLACKWELL},
    {210, 1, BY_SCOPE, LINK_RX_GENERAL_ERRORS, SINCE_BLACKWELL},
    {211, 1, BY_SCOPE, LINK_INTEGRITY_ERRORS, SINCE_BLACKWELL},
    {212, 1, BY_SCOPE, LINK_TX_DISCARDS, SINCE_BLACKWELL},
    {213, 1, BY_SCOPE, LINK_RECOVERED, SINCE_BLACKWELL},
    {214, 1, BY_SCOPE, LINK_RECOVERY_FAILED, SINCE_BLACKWELL},
    {215, 1, BY_SCOPE, LINK_RECOVERIES, SINCE_BLACKWELL},
    {219, 1, BY_SCOPE, LINK_EFFECTIVE_ERRORS, SINCE_BLACKWELL},
    {220, 1, BY_SCOPE, LINK_EFFECTIVE_BER, SINCE_BLACKWELL},
    {221, 1, BY_SCOPE, LINK_SYMBOL_ERRORS, SINCE_BLACKWELL},
    {222, 1, BY_SCOPE, LINK_SYMBOL_BER, SINCE_BLACKWELL},
    {235, 1, BY_SCOPE, LINK_FEC_0, SINCE_BLACKWELL},
    {236, 1, BY_SCOPE, LINK_FEC_1, SINCE_BLACKWELL},
    {237, 1, BY_SCOPE, LINK_FEC_2, SINCE_BLACKWELL},
    {238, 1, BY_SCOPE, LINK_FEC_3, SINCE_BLACKWELL},
    {239, 1, BY_SCOPE, LINK_FEC_4, SINCE_BLACKWELL},
    {240, 1, BY_SCOPE, LINK_FEC_5, SINCE_BLACKWELL},
    {241, 1, BY_SCOPE, LINK_FEC_6, SINCE_BLACKWELL},
    {242, 1, BY_SCOPE, LINK_FEC_7, SINCE_BLACKWELL},
    {243, 1, BY_SCOPE, LINK_FEC_8, SINCE_BLACKWELL},
    {244, 1, BY_SCOPE, LINK_FEC_9, SINCE_BLACKWELL},
    {245, 1, BY_SCOPE, LINK_FEC_10, SINCE_BLACKWELL},
    {246, 1, BY_SCOPE, LINK_FEC_11, SINCE_BLACKWELL},
    {247, 1, BY_SCOPE, LINK_FEC_12, SINCE_BLACKWELL},
    {248, 1, BY_SCOPE, LINK_FEC_13, SINCE_BLACKWELL},
    {249, 1, BY_SCOPE, LINK_FEC_14, SINCE_BLACKWELL},
    {250, 1, BY_SCOPE, LINK_FEC_15, SINCE_BLACKWELL},
};

static nvmlReturn_t number(nvmlFieldValue_t *into, unsigned type, unsigned long long value) {
    into->valueType = type;
    into->value.ullVal = type == U32 ? (unsigned)value : value;
    return NVML_SUCCESS;
}

static nvmlReturn_t read_plain(const struct gpu *gpu, const struct field *field,
                               nvmlFieldValue_t *into) {
    unsigned long long found = 0;
    bool hidden = field->rule == NOT_WITH_INSTANCES && gpu->instance_count > 0;
    bool no_ecc = field->rule == NEEDS_ECC && !has_ecc(gpu);
    if (hidden || no_ecc) return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t answer = value_of(gpu, field->value, &found);
    if (answer != NVML_SUCCESS) return answer;
    number(into, field->type, found);
    if (field->rule == NEGATIVE && found != 0xFFFFFFFFFFFFFFFF) into->value.siVal = -(int)found;
    return NVML_SUCCESS;
}

static nvmlReturn_t read_link(const struct gpu *gpu, const struct link_ids *field,
                              nvmlFieldValue_t *into) {
    bool blackwell = gpu->product->architecture >= NVML_DEVICE_ARCH_BLACKWELL;
    unsigned long long found = 0;
    if (field->when == (blackwell ? BEFORE_BLACKWELL : SINCE_BLACKWELL))
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned link = field->link == BY_SCOPE    ? into->scopeId
                    : field->link == ALL_LINKS ? ALL_LINKS
                                               : field->link + into->fieldId - field->first;
    if (link == ALL_LINKS && field->value == LINK_STATE && link_count(gpu) > 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t answer = link_value(gpu, link, field->value, &found);
    return answer ? answer : number(into, field->value == LINK_STATE ? U32 : U64, found);
}

/* Answers without a value: what NVML has for a GPU without NVLinks on R580. */
static nvmlReturn_t nothing(nvmlFieldValue_t *into) {
    into->valueType = VALUE_TYPE_DOUBLE;
    into->value.ullVal = 0;
    into->timestamp = 0;
    return NVML_SUCCESS;
}

/* Facts of the product: limits, links, their speed, what it can do. The last ones are as on the
 * H100 that was recorded: resets, atomics, and remapped rows that are not active yet. */
static nvmlReturn_t read_fact(const struct gpu *gpu, nvmlFieldValue_t *into) {
    const struct product *product = gpu->product;
    unsigned id = into->fieldId, links = link_count(gpu);
    bool speed = (id >= 84 && id <= 90) || (id >= 132 && id <= 137) || id == 164 || id == 166;
    if ((speed || id == 91) && links == 0) return NVML_ERROR_NOT_SUPPORTED;
    if (speed) return number(into, U32, id == 166 ? product->nvlink_version : product->nvlink_mbps);
    switch (id) {
    case 91: return number(into, U32, links);
    case 147: return links == 0 ? nothing(into) : number(into, U32, links);
    case 184: return number(into, U32, product->architecture >= NVML_DEVICE_ARCH_HOPPER);
    case 187: return number(into, U32, product->power_min_mw);
    case 188: return number(into, U32, product->power_max_mw);
    case 189: return number(into, U32, product->power_limit_mw);
    case 199: return number(into, U32, 1);
    case 226:
    case 227:
    case 228:
    case 229: return number(into, U32, 0);
    case 301:
    case 302:
        return gpu->instance_count > 0 ? NVML_ERROR_NOT_SUPPORTED : number(into, U64, 0);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* Scope is one of the C2C links. */
static nvmlReturn_t read_c2c(const struct gpu *gpu, nvmlFieldValue_t *into) {
    enum value value = into->fieldId == 171   ? VALUE_C2C_STATUS
                       : into->fieldId == 172 ? VALUE_C2C_BANDWIDTH_MBPS
                       : into->fieldId == 231 ? VALUE_C2C_ERRORS
                       : into->fieldId == 232 ? VALUE_C2C_REPLAYS
                       : into->fieldId == 234 ? VALUE_C2C_POWER_STATE
                                              : VALUE_C2C_BACK_TO_BACK_REPLAYS;
    unsigned long long links = 0, found = 0;
    nvmlReturn_t answer = value_of(gpu, VALUE_C2C_LINKS, &links);
    if (answer == NVML_SUCCESS && into->scopeId >= links) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = value_of(gpu, value, &found);
    return answer ? answer : number(into, U32, found);
}

static nvmlReturn_t read_place(const struct gpu *gpu, const struct place *place,
                               nvmlFieldValue_t *into) {
    unsigned long long found = 0;
    nvmlReturn_t answer = ecc_errors(gpu, place->error, place->counter, place->location, &found);
    return answer ? answer : number(into, U64, found);
}

#define EACH(row, table) \
    for (size_t i = 0; row = &table[i], i < sizeof table / sizeof table[0]; i++)

/* Ids that this driver does not have: what came after R580, by its branch, and what none has. */
static bool is_unknown(unsigned id) {
    bool newer = id == 274 || (id >= 289 && id <= 293) || (id >= 296 && id <= 300) || id >= 303;
    return id == 0 || id > LAST_FIELD || (newer && driver_branch() < NEWER_BRANCH);
}

static nvmlReturn_t read_field(const struct gpu *gpu, nvmlFieldValue_t *into) {
    const struct field *field;
    const struct place *place;
    const struct link_ids *link;
    unsigned id = into->fieldId;
    if (is_unknown(id)) {
        into->timestamp = 0;
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    EACH(field, fields)
    if (field->id == id) return read_plain(gpu, field, into);
    EACH(place, place_fields)
    if (place->id == id) return read_place(gpu, place, into);
    EACH(link, link_fields)
    if (id >= link->first && id < link->first + link->count) return read_link(gpu, link, into);
    if (id == 171 || id == 172 || (id >= 231 && id <= 234)) return read_c2c(gpu, into);
    return read_fact(gpu, into);
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && (count < 1 || into == NULL)) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    for (int i = 0; i < count; i++) {
        into[i].timestamp = now_usec();
        into[i].latencyUsec = 0;
        into[i].nvmlReturn = read_field(&subject.gpu, &into[i]);
        if (subject.garbage && i % 2 == 1) into[i].valueType = 77; /* no NVML_VALUE_TYPE_* */
    }
    return NVML_SUCCESS;
}
