# The prelude and one CUDA source as one C string; errors of the compiler name the file and line they are in.
BEGIN {
    print "#include \"device/gpu.h\""
    print "HRI_CU(" name ");"
    print "const hri_gpu_source hri_cu_" name " = {\"" name "\","
}
FNR == 1 {
    n = split(FILENAME, parts, "/")
    print "    \"#line 1 \\\"" parts[n] "\\\"\\n\""
}
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    print "    \"" $0 "\\n\""
}
END { print "};" }
