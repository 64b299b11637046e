/* NVML calls about what connects GPUs: NVLink, the fabric, peer access. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "nvlink.h"
#include "readings.h"

unsigned link_count(const struct gpu *gpu) {
    return gpu->values[VALUE_NVLINK_DISABLED] == 1 ? 0 : gpu->product->nvlink_count;
}

static nvmlReturn_t sum_of_links(const struct gpu *gpu, enum link_value value,
                                 unsigned long long *into) {
    *into = 0;
    for (unsigned i = 0; i < link_count(gpu); i++) {
        unsigned long long count = 0;
        nvmlReturn_t answer = report(gpu->links[i].values[value], &count);
        if (answer != NVML_SUCCESS) return answer;
        *into += count;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t link_value(const struct gpu *gpu, unsigned link, enum link_value value,
                        unsigned long long *into) {
    if (link_count(gpu) == 0) return NVML_ERROR_NOT_SUPPORTED;
    if (link == ALL_LINKS) return sum_of_links(gpu, value, into);
    if (link >= link_count(gpu)) return NVML_ERROR_INVALID_ARGUMENT;
    return report(gpu->links[link].values[value], into);
}

static nvmlReturn_t enter_link(nvmlDevice_t device, const char *call, unsigned link,
                               const void *into, struct subject *subject) {
    nvmlReturn_t answer = enter_gpu(device, call, subject);
    if (answer != NVML_SUCCESS) return answer;
    if (link_count(&subject->gpu) == 0) return NVML_ERROR_NOT_SUPPORTED;
    return into == NULL || link >= link_count(&subject->gpu) ? NVML_ERROR_INVALID_ARGUMENT
                                                             : NVML_SUCCESS;
}

/* 1: active; what else the state says is only reported by its field. */
API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *into) {
    struct subject subject;
    unsigned long long state = 0;
    nvmlReturn_t answer = enter_link(device, __func__, link, into, &subject);
    if (answer == NVML_SUCCESS) answer = link_value(&subject.gpu, link, LINK_STATE, &state);
    if (answer == NVML_SUCCESS) *into = subject.garbage ? (unsigned)state : state == 1;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_link(device, __func__, link, into, &subject);
    if (answer == NVML_SUCCESS) *into = subject.gpu.product->nvlink_version;
    return answer;
}

/* Counter: replay, recovery, CRC FLIT, CRC data, ECC. */
API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                 unsigned counter, unsigned long long *into) {
    static const enum link_value counters[] = {LINK_REPLAY, LINK_RECOVERY, LINK_CRC_FLIT,
                                               LINK_CRC_DATA, LINK_ECC};
    struct subject subject;
    nvmlReturn_t answer = enter_link(device, __func__, link, into, &subject);
    if (answer == NVML_SUCCESS && counter >= 5) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (subject.gpu.product->architecture >= NVML_DEVICE_ARCH_BLACKWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    return link_value(&subject.gpu, link, counters[counter], into);
}

/* The boards of the simulator are linked to switches; four of them, as in an HGX box. */
API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                     unsigned *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_link(device, __func__, link, into, &subject);
    if (answer == NVML_SUCCESS) *into = 2; /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
    return answer;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                     nvmlPciInfo_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_link(device, __func__, link, into, &subject);
    if (answer != NVML_SUCCESS) return answer;
    memset(into, 0, sizeof *into);
    into->bus = 0xC2 + link % 4;
    snprintf(into->busId, sizeof into->busId, "%08X:%02X:%02X.0", 0, into->bus, 0);
    snprintf(into->busIdLegacy, sizeof into->busIdLegacy, "%04X:%02X:%02X.0", 0, into->bus & 0xFF,
             0);
    return NVML_SUCCESS;
}

/* Capability index: read, write, NVLink, atomics, PCI. */
API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, unsigned index,
                                        unsigned *into) {
    struct subject subject, peer;
    unsigned theirs = 0;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS) answer = enter_gpu(other, __func__, &peer);
    if (answer == NVML_SUCCESS && index > 4) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = value_into(&subject.gpu, VALUE_P2P_STATUS, into);
    if (answer == NVML_SUCCESS) answer = value_into(&peer.gpu, VALUE_P2P_STATUS, &theirs);
    if (answer == NVML_SUCCESS && theirs > *into) *into = theirs;
    return answer;
}

static unsigned hex_digit(char c) {
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

static void cluster_bytes(const struct gpu *gpu, unsigned char *into) {
    int digits = 0;
    memset(into, 0, 16);
    for (const char *c = gpu->cluster_uuid; *c != '\0'; c++) {
        if (*c == '-') continue;
        into[digits / 2] = (unsigned char)(into[digits / 2] << 4 | hex_digit(*c));
        digits++;
    }
}

/* Where the fabric is not supported (state 0) everything else is 0 too, as an H100 without NVLink
 * answers on R580. */
static nvmlReturn_t fabric_of(const struct gpu *gpu, nvmlGpuFabricInfoV_t *into) {
    unsigned state = 0, summary = 0;
    nvmlReturn_t answer = value_into(gpu, VALUE_FABRIC_STATE, &state);
    if (answer == NVML_SUCCESS && state == 0) {
        bool three = into->version == NVML_GPU_FABRIC_INFO_V3;
        size_t end = three ? sizeof *into : offsetof(nvmlGpuFabricInfoV_t, healthSummary);
        memset(into->clusterUuid, 0, end - offsetof(nvmlGpuFabricInfoV_t, clusterUuid));
        return NVML_SUCCESS;
    }
    cluster_bytes(gpu, into->clusterUuid);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_FABRIC_STATUS, &into->status);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_FABRIC_CLIQUE, &into->cliqueId);
    if (answer == NVML_SUCCESS) answer = value_into(gpu, VALUE_FABRIC_HEALTH_MASK, &into->healthMask);
    if (answer == NVML_SUCCESS && into->version == NVML_GPU_FABRIC_INFO_V3) {
        answer = value_into(gpu, VALUE_FABRIC_HEALTH_SUMMARY, &summary);
        into->healthSummary = (unsigned char)summary;
    }
    into->state = (unsigned char)state;
    return answer;
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *into) {
    struct subject subject;
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS) return answer;
    if (into->version != NVML_GPU_FABRIC_INFO_V2 && into->version != NVML_GPU_FABRIC_INFO_V3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return fabric_of(&subject.gpu, into);
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *into) {
    struct subject subject;
    nvmlGpuFabricInfoV_t all = {.version = NVML_GPU_FABRIC_INFO_V2};
    nvmlReturn_t answer = enter_gpu(device, __func__, &subject);
    if (answer == NVML_SUCCESS && into == NULL) answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS) answer = fabric_of(&subject.gpu, &all);
    if (answer != NVML_SUCCESS) return answer;
    memcpy(into->clusterUuid, all.clusterUuid, sizeof into->clusterUuid);
    into->status = all.status;
    into->cliqueId = all.cliqueId;
    into->state = all.state;
    return NVML_SUCCESS;
}
