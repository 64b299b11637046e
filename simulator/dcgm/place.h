/* Where an entity is: what is known of it in the scenario and in dcgm.ini. */
#ifndef DRAGUARD_SIMULATOR_DCGM_PLACE_H
#define DRAGUARD_SIMULATOR_DCGM_PLACE_H

#include "engine.h"

struct place {
    struct entity entity;
    int gpu; /* -1: the node */
    const struct gpu *board;
    const struct instance *instance; /* of FE_GPU_I and FE_GPU_CI */
    int link;                        /* of FE_LINK; else -1 */
    const struct place_settings *settings;
};

#endif
