/* DCGM calls about the library and its engines: the embedded one, and the
 * connections to stand-alone ones, which are simulated in this process too. */
#include <stdio.h>
#include <string.h>

#include "engine_list.h"
#include "gate.h"

API dcgmReturn_t dcgmInit(void) {
    const struct settings *settings;
    dcgmReturn_t answer = begin_library(__func__, "", 0, &settings);
    if (answer != DCGM_ST_OK) return answer;
    library_opened();
    finish_library();
    return DCGM_ST_OK;
}

API dcgmReturn_t dcgmShutdown(void) {
    const struct settings *settings;
    dcgmReturn_t answer = begin_library(__func__, "", 0, &settings);
    if (answer != DCGM_ST_OK) return answer;
    answer = library_is_open() ? DCGM_ST_OK : DCGM_ST_UNINITIALIZED;
    library_closed();
    finish_library();
    return answer;
}

static dcgmReturn_t start(unsigned mode, dcgmHandle_t *handle) {
    const struct settings *settings;
    if (handle == NULL || (mode != MODE_AUTO && mode != MODE_MANUAL)) return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = begin_library("dcgmStartEmbedded", "", 0, &settings);
    if (answer != DCGM_ST_OK) return answer;
    struct engine *engine = engine_of(EMBEDDED_HANDLE);
    if (!library_is_open()) {
        answer = DCGM_ST_UNINITIALIZED;
    } else if (engine == NULL && (engine = engine_new(&settings->embedded)) == NULL) {
        answer = DCGM_ST_MEMORY;
    } else {
        engine->manual = mode == MODE_MANUAL;
        *handle = engine->handle;
    }
    finish_library();
    return answer;
}

API dcgmReturn_t dcgmStartEmbedded(unsigned mode, dcgmHandle_t *handle) {
    return start(mode, handle);
}

/* The three versions are equal up to the handle. */
API dcgmReturn_t dcgmStartEmbedded_v2(dcgmStartEmbeddedV2Params_v1 *params) {
    if (params == NULL) return DCGM_ST_BADPARAM;
    if (params->version != VERSION(dcgmStartEmbeddedV2Params_v1, 1) &&
        params->version != VERSION(dcgmStartEmbeddedV2Params_v2, 2) &&
        params->version != VERSION(dcgmStartEmbeddedV2Params_v3, 3))
        return DCGM_ST_VER_MISMATCH;
    return start(params->opMode, &params->dcgmHandle);
}

static dcgmReturn_t end(dcgmHandle_t handle, const char *name, bool embedded) {
    const struct settings *settings;
    dcgmReturn_t answer = begin_library(name, "", 0, &settings);
    if (answer != DCGM_ST_OK) return answer;
    struct engine *engine = engine_of(handle);
    if (!library_is_open())
        answer = DCGM_ST_UNINITIALIZED;
    else if (engine == NULL || (engine->address[0] == '\0') != embedded)
        answer = embedded ? DCGM_ST_UNINITIALIZED : DCGM_ST_BADPARAM;
    else
        engine_free(engine);
    finish_library();
    return answer;
}

API dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t handle) { return end(handle, __func__, true); }

API dcgmReturn_t dcgmDisconnect(dcgmHandle_t handle) { return end(handle, __func__, false); }

/* A host without a port means DCGM's own. */
static bool full_address(const char *address, bool path, char *into) {
    const char *colon = strrchr(address, ':');
    bool complete = path || (colon != NULL && colon[1] != ']' && colon[1] != '\0');
    int length = snprintf(into, TEXT_SIZE, "%s%s", address, complete ? "" : DEFAULT_PORT);
    return *address != '\0' && length < TEXT_SIZE;
}

static dcgmReturn_t connect_to(const char *address, bool path, unsigned timeout_ms,
                               dcgmHandle_t *handle) {
    char full[TEXT_SIZE];
    const struct settings *settings;
    if (!library_is_open()) return DCGM_ST_UNINITIALIZED;
    if (address == NULL || handle == NULL || !full_address(address, path, full))
        return DCGM_ST_BADPARAM;
    dcgmReturn_t answer = begin_library("dcgmConnect", full, (long)timeout_ms, &settings);
    if (answer != DCGM_ST_OK) return answer;
    struct engine *engine = engine_new(host_engine(settings, full));
    if (engine != NULL) *handle = engine->handle;
    finish_library();
    return engine != NULL ? DCGM_ST_OK : DCGM_ST_MEMORY;
}

API dcgmReturn_t dcgmConnect_v2(const char *address, dcgmConnectV2Params_v2 *params,
                                dcgmHandle_t *handle) {
    if (params == NULL) return DCGM_ST_BADPARAM;
    if (params->version == VERSION(dcgmConnectV2Params_v1, 1))
        return connect_to(address, false, 0, handle);
    if (params->version != VERSION(dcgmConnectV2Params_v2, 2)) return DCGM_ST_VER_MISMATCH;
    return connect_to(address, params->addressIsUnixSocket != 0, params->timeoutMs, handle);
}

/* Version 3 marks a path with its prefix. */
API dcgmReturn_t dcgmConnect_v3(const char *address, const dcgmConnectV3Params_v1 *params,
                                dcgmHandle_t *handle) {
    static const char prefix[] = "unix://";
    if (params == NULL || address == NULL) return DCGM_ST_BADPARAM;
    if (params->version != VERSION(dcgmConnectV3Params_v1, 1)) return DCGM_ST_VER_MISMATCH;
    bool path = strncmp(address, prefix, sizeof prefix - 1) == 0;
    return connect_to(path ? address + sizeof prefix - 1 : address, path, params->timeoutMs, handle);
}

API dcgmReturn_t dcgmConnect(const char *address, dcgmHandle_t *handle) {
    return connect_to(address, false, 0, handle);
}

static dcgmReturn_t fill_version(const struct settings *settings, dcgmVersionInfo_v2 *into) {
    snprintf(into->rawBuildInfoString, sizeof into->rawBuildInfoString,
             "version:%s;arch:x86_64;buildtype:Release;buildplatform:simulator", settings->version);
    return DCGM_ST_OK;
}

API dcgmReturn_t dcgmVersionInfo(dcgmVersionInfo_v2 *into) {
    const struct settings *settings;
    if (into == NULL) return DCGM_ST_BADPARAM;
    if (into->version != VERSION(dcgmVersionInfo_v2, 2)) return DCGM_ST_VER_MISMATCH;
    dcgmReturn_t answer = begin_library(__func__, "", 0, &settings);
    if (answer != DCGM_ST_OK) return answer;
    answer = fill_version(settings, into);
    finish_library();
    return answer;
}

API dcgmReturn_t dcgmHostengineVersionInfo(dcgmHandle_t handle, dcgmVersionInfo_v2 *into) {
    struct call call;
    if (into == NULL) return DCGM_ST_BADPARAM;
    if (into->version != VERSION(dcgmVersionInfo_v2, 2)) return DCGM_ST_VER_MISMATCH;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    return answer ? answer : finish(fill_version(call.settings, into));
}

API dcgmReturn_t dcgmHostengineIsHealthy(dcgmHandle_t handle, dcgmHostengineHealth_v1 *into) {
    struct call call;
    if (into == NULL) return DCGM_ST_BADPARAM;
    if (into->version != VERSION(dcgmHostengineHealth_v1, 1)) return DCGM_ST_VER_MISMATCH;
    dcgmReturn_t answer = begin(handle, __func__, &call);
    if (answer != DCGM_ST_OK) return answer;
    into->overallHealth = 0;
    return finish(DCGM_ST_OK);
}
