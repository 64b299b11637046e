/* What DCGM says of itself: its fields, its error codes, its profiling groups. */
#include <stdlib.h>
#include <string.h>

#include "entities.h"
#include "gate.h"
#include "reading.h"

static const struct {
    dcgmReturn_t code;
    const char *text;
} error_rows[] = {
    {DCGM_ST_OK, "Success"},
    {DCGM_ST_BADPARAM, "Bad parameter passed to function"},
    {DCGM_ST_GENERIC_ERROR, "Generic unspecified error"},
    {DCGM_ST_MEMORY, "Out of memory error"},
    {DCGM_ST_NOT_CONFIGURED, "Setting not configured"},
    {DCGM_ST_NOT_SUPPORTED, "Feature not supported"},
    {DCGM_ST_UNINITIALIZED, "Object is in an undefined state"},
    {DCGM_ST_TIMEOUT, "Timeout"},
    {DCGM_ST_VER_MISMATCH, "API version mismatch"},
    {DCGM_ST_UNKNOWN_FIELD, "Unknown field identifier"},
    {DCGM_ST_NO_DATA, "No data is available"},
    {DCGM_ST_NOT_WATCHED, "Field is not being watched"},
    {DCGM_ST_GPU_IS_LOST, "GPU is lost"},
    {DCGM_ST_CONNECTION_NOT_VALID, "Host engine connection invalid/disconnected"},
    {DCGM_ST_MAX_LIMIT, "Max limit reached for the object"},
    {DCGM_ST_DUPLICATE_KEY, "Duplicate key passed to function"},
    {DCGM_ST_INSUFFICIENT_SIZE, "Too small a buffer"},
    {DCGM_ST_MODULE_NOT_LOADED, "Module is not loaded"},
    {DCGM_ST_GROUP_IS_EMPTY, "Group is empty"},
};

/* DCGM exports errorString; dcgmErrorString is what one might look for. */
API const char *errorString(dcgmReturn_t code) {
    for (size_t i = 0; i < sizeof error_rows / sizeof error_rows[0]; i++)
        if (error_rows[i].code == code) return error_rows[i].text;
    return NULL;
}

API const char *dcgmErrorString(dcgmReturn_t code) { return errorString(code); }

#define META_LIMIT 65536

static dcgm_field_meta_t *metas[META_LIMIT];

static dcgm_field_meta_t *meta_of(const struct field *field) {
    static const dcgm_field_output_format_t format = {"", "", 8};
    dcgm_field_meta_t *meta = calloc(1, sizeof *meta);
    if (meta == NULL) return NULL;
    meta->fieldId = field->id;
    meta->fieldType = field->type;
    meta->size = field->type == 's' ? 0 : 8;
    strncpy(meta->tag, field->tag, sizeof meta->tag - 1);
    meta->scope = field->level != FE_NONE;
    meta->entityLevel = field->level;
    meta->valueFormat = &format;
    return meta;
}

API int DcgmFieldsInit(void) { return 0; }

API int DcgmFieldsTerm(void) { return 0; }

/* The answer stays valid for the life of the process. */
API const dcgm_field_meta_t *DcgmFieldGetById(unsigned short id) {
    const struct settings *settings;
    const struct field *field = field_of(id);
    if (field == NULL || begin_library(__func__, "", 0, &settings) != DCGM_ST_OK) return NULL;
    if (metas[id] == NULL) metas[id] = meta_of(field);
    finish_library();
    return metas[id];
}

API const dcgm_field_meta_t *DcgmFieldGetByTag(const char *tag) {
    for (unsigned id = 0; tag != NULL && id < META_LIMIT; id++) {
        const struct field *field = field_of(id);
        if (field != NULL && strcmp(field->tag, tag) == 0) return DcgmFieldGetById(field->id);
    }
    return NULL;
}

API const char *DcgmFieldsGetEntityGroupString(unsigned kind) {
    static const char *const names[] = {"None", "GPU",    "vGPU",   "Switch",  "GPU_I",
                                        "GPU_CI", "LINK", "CPU",    "CPU_CORE"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

API dcgmReturn_t dcgmProfGetSupportedMetricGroups(dcgmHandle_t handle,
                                                  dcgmProfGetMetricGroups_v3 *into) {
    struct call call;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    if (into == NULL || (int)into->gpuId >= gpu_count(&call)) return finish(DCGM_ST_BADPARAM);
    if (into->version != VERSION(dcgmProfGetMetricGroups_v3, 3)) return finish(DCGM_ST_VER_MISMATCH);
    const struct profiling *profiling = profiling_of(&call, (int)into->gpuId);
    dcgmProfMetricGroupInfo_v2 *group = into->metricGroups;
    into->numMetricGroups = 0;
    if (profiling->count == 0) return finish(DCGM_ST_MODULE_NOT_LOADED);
    memset(group, 0, sizeof into->metricGroups);
    for (int i = 0; i < profiling->count; i++, group += group->numFieldIds == 64)
        group->fieldIds[group->numFieldIds++] = profiling->fields[i];
    into->numMetricGroups = profiling->count > 64 ? 2 : 1;
    for (unsigned i = 0; i < into->numMetricGroups; i++)
        into->metricGroups[i].majorId = (unsigned short)i;
    return finish(DCGM_ST_OK);
}
