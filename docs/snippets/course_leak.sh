# docs/snippets/course_leak.sh
glassformer check reweight-story --set model.merge=reweight_sequence || echo "exit code $?"
