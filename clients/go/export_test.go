package logdrive

// Built is for the examples, which see the package from outside.
var Built = built
