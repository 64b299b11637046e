/* DCGM calls about policies: there, and not supported. */
#include "gate.h"

static dcgmReturn_t refuse(dcgmHandle_t handle, const char *name) {
    struct call call;
    dcgmReturn_t answer = begin(handle, name, &call);
    return answer ? answer : finish(DCGM_ST_NOT_SUPPORTED);
}

API dcgmReturn_t dcgmPolicySet(dcgmHandle_t handle) { return refuse(handle, __func__); }
API dcgmReturn_t dcgmPolicyGet(dcgmHandle_t handle) { return refuse(handle, __func__); }
API dcgmReturn_t dcgmPolicyRegister_v2(dcgmHandle_t handle) { return refuse(handle, __func__); }
API dcgmReturn_t dcgmPolicyUnregister(dcgmHandle_t handle) { return refuse(handle, __func__); }
API dcgmReturn_t dcgmPolicyTrigger(dcgmHandle_t handle) { return refuse(handle, __func__); }
