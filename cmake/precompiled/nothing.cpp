// A library that has nothing but a precompiled header needs a source.
