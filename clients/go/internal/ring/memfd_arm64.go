package ring

const sysMemfdCreate = 279
