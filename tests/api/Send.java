import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.io.ByteArrayInputStream;

/** Sends batches as Java does by default, which offers HTTP/2, and prints what is answered: one line for each. */
public class Send {
    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[0]);
        for (int round = 0; round < 2; round++) {
            HttpClient client = HttpClient.newHttpClient();  // a new one offers it again
            for (int number = 0; number < 4; number++) {
                byte[] body = ("java " + number + "\n").repeat(100 * (number + 1)).getBytes(StandardCharsets.UTF_8);
                HttpRequest.Builder request = HttpRequest.newBuilder(uri)
                    .header("Authorization", "Bearer " + arguments[1])
                    .header("Content-Type", "text/plain")
                    .POST(number % 2 == 0 ? BodyPublishers.ofByteArray(body)
                        : BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body)));  // in chunks
                if (number >= 2) {
                    request.header("Idempotency-Key", "java-" + number);
                }
                var answer = client.send(request.build(), BodyHandlers.ofString());
                System.out.println(answer.statusCode() + " " + answer.body());
            }
        }
    }
}
