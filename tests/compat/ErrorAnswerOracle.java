import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.errors.IllegalSaslStateException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * What Kafka's requests answer when nothing of them is done, as an oracle.
 *
 * <p>One JSON question a line on standard input, {"key", "version", "body": hex, "text"}, one JSON answer a line on standard output:
 * {"ok": hex} is the body of the answer with ILLEGAL_SASL_STATE, {"ok": null} none, {"error": text} what Kafka cannot answer.
 */
public class ErrorAnswerOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JsonNodeFactory.instance.objectNode();
            try {
                answer.put("ok", answer(mapper.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            answers.println(answer);
        }
    }

    private static String answer(JsonNode question) {
        short version = (short) question.get("version").asInt();
        ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(question.get("body").asText()));
        ApiKeys key = ApiKeys.forId(question.get("key").asInt());
        AbstractRequest request = AbstractRequest.parseRequest(key, version, new ByteBufferAccessor(body)).request;
        AbstractResponse response = request.getErrorResponse(new IllegalSaslStateException(question.get("text").asText()));
        if (response == null) {
            return null;
        }
        ByteBuffer written = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
