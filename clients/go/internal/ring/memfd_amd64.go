package ring

const sysMemfdCreate = 319
