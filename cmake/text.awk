# One or more text files as one C string: `const char NAME[]`.
BEGIN { print "extern const char " name "[];\nconst char " name "[] =" }
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    gsub(/\?/, "\\?")
    print "    \"" $0 "\\n\""
}
END { print "    ;" }
