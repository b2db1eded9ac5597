/* The attributes of power and power_grad. */
#ifndef HRI_OPS_COMMON_POWER_H
#define HRI_OPS_COMMON_POWER_H

typedef struct hri_attr_power {
    double exponent;
} hri_attr_power;

#endif
